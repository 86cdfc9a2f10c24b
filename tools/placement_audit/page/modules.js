// The modules as a tree: what each moves and holds; and what is known of the one that is chosen.

const modulePart = {
  build(section) {
    this.all = data.modules;  // in preorder: [name, depth, copies, steps, calls, max, total, implicit, held, host reads, path, moves]
    this.parent = [];
    const path = [];
    this.all.forEach((module, i) => {
      path.length = module[1];
      this.parent[i] = path.length ? path[path.length - 1] : -1;
      path.push(i);
    });
    this.hasInside = this.all.map((module, i) => i + 1 < this.all.length && this.all[i + 1][1] > module[1]);
    this.open = new Set();
    // Open to where it branches; at most some 30 rows at first.
    for (let depth = 0, rows = 1; depth < 4; ++depth) {
      const level = this.all.map((module, i) => i).filter((i) => this.all[i][1] === depth && this.hasInside[i]);
      rows += this.all.filter((module) => module[1] === depth + 1).length;
      if (rows > 30 && depth > 0) break;
      level.forEach((i) => this.open.add(i));
    }
    section.append(el("p", {class: "faint"},
      el("span", {class: "key"}, el("span", {class: "bar"}, el("i", {class: "explicit", style: {width: "100%"}})), "asked for"),
      el("span", {class: "key"}, el("span", {class: "bar"}, el("i", {class: "implicit", style: {width: "100%"}})), "implicit: nobody wrote it"),
      "Bytes that the rank with most receives in a step."));
    section.append(searchBox("find a module", (text) => { this.filter = text.toLowerCase(); this.show(0); }));
    section.append(el("div", {class: "row module-row heads", "aria-hidden": "true"}, el("span", {}, "module"),
      el("span", {}, "moves"), el("span", {class: "number"}, "received"), el("span", {class: "number held"}, "held")));
    this.filter = "";
    const box = el("div", {id: "module-tree"});
    section.append(box);
    this.list = new VirtualList(box, {
      role: "tree", rowRole: "treeitem", label: "modules", rowClass: "module-row", height: 27,
      fill: (row, i) => this.fill(row, this.rows[i]),
      attributes: (i) => {
        const at = this.rows[i];
        return {"aria-level": this.all[at][1] + 1, "aria-label": this.labelOf(at),
          "aria-expanded": this.hasInside[at] ? String(this.isOpen(at)) : null};
      },
      choose: (i, event) => {
        const at = this.rows[i];
        const onTwisty = event && event.target.classList && event.target.classList.contains("twisty");
        if (onTwisty && this.hasInside[at]) this.toggle(at, !this.isOpen(at));
        this.tell(at);
      },
      key: (event, i) => this.onKey(event, i),
    });
    this.detail = el("div", {class: "detail", id: "module-detail", "aria-live": "polite"});
    section.append(this.detail);
    this.show(0);
    this.tell(0);
  },
  isOpen(at) { return this.filter !== "" || this.open.has(at); },
  nameOf(at) {
    const [name, , copies] = this.all[at];
    return (at === 0 && name === "" ? "(all)" : name) + (copies > 1 ? " ×" + countText(copies) : "");
  },
  labelOf(at) {
    const module = this.all[at];
    return `${this.nameOf(at)}: receives ${bytesText(module[5])}, ${bytesText(module[7])} of it implicit; holds ${bytesText(module[8])}`;
  },
  show(chosen) {
    this.rows = [];
    if (this.filter) {
      const seen = new Set();
      this.all.forEach((module, i) => {
        if (!module[10].toLowerCase().includes(this.filter)) return;
        for (let at = i; at >= 0 && !seen.has(at); at = this.parent[at]) seen.add(at);
      });
      this.rows = [...seen].sort((a, b) => a - b);
    } else {
      let hidden = Infinity;
      this.all.forEach((module, i) => {
        if (module[1] > hidden) return;
        hidden = this.open.has(i) ? Infinity : module[1];
        this.rows.push(i);
      });
    }
    this.list.show(this.rows.length, chosen);
  },
  fill(row, at) {
    const [, depth, , , , max, , implicit, held] = this.all[at];
    const name = el("span", {style: {"padding-left": Math.min(depth, 12) * 16 + "px"}, title: this.all[at][10] || "the program"},
      el("span", {class: "twisty", "aria-hidden": "true"}, this.hasInside[at] ? (this.isOpen(at) ? "▾" : "▸") : ""), this.nameOf(at));
    const most = Math.max(1, this.all[0][5]);
    const bar = el("span", {class: "bar"},
      el("i", {class: "explicit", style: {width: 100 * (max - implicit) / most + "%"}}),
      el("i", {class: "implicit", style: {width: 100 * implicit / most + "%"}}));
    row.append(name, bar);
    cell(row, "number", orDash(max));
    cell(row, "number held", orDash(held));
  },
  toggle(at, opened) {
    if (opened) this.open.add(at);
    else this.open.delete(at);
    this.show(0);
    this.list.choose(this.rows.indexOf(at));
  },
  onKey(event, i) {
    const at = this.rows[i];
    if (at === undefined) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft" || event.key === "Enter" || event.key === " ") event.preventDefault();
    if (event.key === "ArrowRight" && this.hasInside[at]) {
      if (this.isOpen(at)) this.list.choose(i + 1);
      else this.toggle(at, true);
    } else if (event.key === "ArrowLeft") {
      if (this.hasInside[at] && this.open.has(at) && !this.filter) this.toggle(at, false);
      else if (this.parent[at] >= 0) this.list.choose(this.rows.indexOf(this.parent[at]));
    } else if ((event.key === "Enter" || event.key === " ") && this.hasInside[at]) {
      this.toggle(at, !this.isOpen(at));
    }
  },
  // Shows the module of a path, its parents opened; rounds and copies are found by their number.
  find(path) {
    const fits = (name, part) => {
      const range = /^(\d+)-(\d+)$/.exec(name);
      return name === part || (range && /^\d+$/.test(part) && Number(range[1]) <= Number(part) && Number(part) <= Number(range[2])) ||
        (part === "*" && (range || /^\d+$/.test(name)));
    };
    let at = 0;
    for (const part of path === "" ? [] : path.split(".")) {
      const next = this.all.findIndex((module, i) => this.parent[i] === at && fits(module[0], part));
      if (next < 0) break;
      at = next;
    }
    for (let up = this.parent[at]; up >= 0; up = this.parent[up]) this.open.add(up);
    this.filter = "";
    document.querySelector("#modules input[type=search]").value = "";
    this.show(0);
    this.list.choose(this.rows.indexOf(at));
    document.getElementById("modules").scrollIntoView();
    this.list.box.focus({preventScroll: true});
  },
  tell(at) {
    const [, , copies, steps, calls, max, total, implicit, held, reads, path, moves] = this.all[at];
    const facts = [countText(steps) + " steps", countText(calls) + " collectives", bytesText(max) + " received by the rank with most",
      bytesText(total) + " by all", bytesText(implicit) + " implicit", bytesText(held) + " held"];
    if (reads) facts.push(countText(reads) + " host reads");
    if (copies > 1) facts.push(countText(copies) + " equal modules together");
    this.detail.replaceChildren(el("h3", {}, path || "The program"), el("p", {}, facts.join(" · ")));
    if (moves.length) {
      this.detail.append(tableOf(["collective", "over", "calls", "received", "by all"],
        moves.map(([collective, axes, isImplicit, count, most, all]) =>
          [collective + (isImplicit ? ", implicit" : ""), axes || "–", countText(count), bytesText(most), bytesText(all)]), [2, 3, 4]));
    }
    this.detail.append(el("p", {}, linkButton("its steps", () => stepPart.find("module:" + (path || "")))));
  },
};
