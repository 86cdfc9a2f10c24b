// The steps as written, with where they come from; and the findings, where there are any.

const stepPart = {
  build(section) {
    // [what, module, site, phase, stage, depth, bytes, implicit, reads, makes]; what they name are indices.
    this.all = data.steps;
    this.filter = {text: "", phase: "", moves: false};
    this.box = searchBox("find a step: op, module:…, site or value", (text) => { this.filter.text = text.toLowerCase(); this.show(); },
      selectBox("phase", [["", "all"], ...data.phases.map((name, i) => [i, name])], (value) => { this.filter.phase = value; this.show(); }),
      checkBox("only what moves", false, (on) => { this.filter.moves = on; this.show(); }));
    this.told = el("p", {class: "faint", "aria-live": "polite", id: "steps-told"});
    const list = el("div", {id: "step-list"});
    this.detail = el("div", {class: "detail"});
    section.append(this.box, this.told, el("div", {class: "row step-row heads", "aria-hidden": "true"},
      el("span", {}, "step"), el("span", {}, "what"), el("span", {class: "made"}, "makes"),
      el("span", {class: "site"}, "source"), el("span", {class: "number"}, "received")), list, this.detail);
    this.list = new VirtualList(list, {
      role: "listbox", rowRole: "option", label: "steps", rowClass: "step-row", height: 25,
      fill: (row, i) => this.fill(row, this.rows[i]),
      choose: (i) => this.tell(this.rows[i]),
    });
    this.show();
  },
  textOf(step) {
    return (data.texts[step[0]] + " " + data.paths[step[1]] + " " + data.sites[step[2]] + " " +
      step[9].map((value) => data.values[value][0]).join(" ")).toLowerCase();
  },
  show() {
    const {text, phase, moves} = this.filter;
    const module = text.startsWith("module:") ? text.slice(7) : null;
    this.rows = [];
    this.all.forEach((step, i) => {
      if (moves && step[6] === 0) return;
      if (phase !== "" && step[3] !== Number(phase)) return;
      if (module !== null) {
        const path = data.paths[step[1]].toLowerCase();
        if (module !== "" && path !== module && !path.startsWith(module + ".") && !this.isOf(path, module)) return;
      } else if (text && !this.textOf(step).includes(text)) {
        return;
      }
      this.rows.push(i);
    });
    this.told.textContent = countText(this.rows.length) + " of " + countText(this.all.length) + " steps as written";
    this.list.box.scrollTop = 0;
    this.list.show(this.rows.length, 0);
    if (this.rows.length) this.tell(this.rows[0]);
    else this.detail.replaceChildren(el("p", {class: "faint"}, "No step is like that."));
  },
  // "layers.3.mlp" is of "layers.0-31".
  isOf(path, module) {
    const parts = path.split(".");
    return module.split(".").every((part, i) => {
      const range = /^(\d+)-(\d+)$/.exec(part);
      if (!range) return parts[i] === part;
      return parts[i] !== undefined && Number(parts[i]) >= Number(range[1]) && Number(parts[i]) <= Number(range[2]);
    });
  },
  fill(row, at) {
    const [what, , site, , , depth, bytes, , , makes] = this.all[at];
    cell(row, "faint", countText(at));
    cell(row, "what", " ".repeat(0) + "· ".repeat(depth) + data.texts[what]);
    cell(row, "made", makes.map((value) => data.values[value][0]).join(", "));
    cell(row, "site faint", data.sites[site]);
    cell(row, "number", orDash(bytes));
  },
  tell(at) {
    const [what, path, site, phase, stage, , bytes, implicit, reads, makes] = this.all[at];
    const names = (list) => (list.length ? el("span", {}, ...list.flatMap((value, i) =>
      [i ? ", " : "", linkButton(data.values[value][0], () => valuePart.choose(value))])) : "–");
    const rows = [["module", data.paths[path] ? linkButton(data.paths[path], () => modulePart.find(data.paths[path])) : "–"],
      ["source", data.sites[site] ? el("code", {}, data.sites[site]) : "–"],
      ["phase", phase < 0 ? "–" : data.phases[phase]], ["reads", names(reads)], ["makes", names(makes)],
      ["receives", orDash(bytes) + (implicit ? ", implicit" : "")]];
    if (stage >= 0) rows.push(["stage", String(stage)]);
    this.detail.replaceChildren(el("h3", {}, "Step " + countText(at) + ": " + data.texts[what]), el("table", {}, el("tbody", {},
      ...rows.map(([name, value]) => el("tr", {}, el("th", {scope: "row"}, name), el("td", {}, value))))));
  },
  find(text) {
    this.box.querySelector("input").value = text;
    this.filter.text = text.toLowerCase();
    this.show();
    document.getElementById("steps").scrollIntoView();
  },
};

const findingPart = {
  build(section) {
    this.filter = {text: "", rule: "", severities: new Set(["fail", "warn", "note"])};
    const rules = [...new Set(data.findings.map((each) => each.rule))].sort();
    section.append(searchBox("find in findings", (text) => { this.filter.text = text.toLowerCase(); this.show(); },
      selectBox("kind", [["", "all"], ...rules.map((rule) => [rule, rule])], (value) => { this.filter.rule = value; this.show(); }),
      ...["fail", "warn", "note"].map((severity) => checkBox(severity, true, (on) => {
        if (on) this.filter.severities.add(severity);
        else this.filter.severities.delete(severity);
        this.show();
      }))));
    this.told = el("p", {class: "faint", "aria-live": "polite", id: "findings-told"});
    this.list = el("ul", {class: "findings"});
    section.append(this.told, this.list);
    this.show();
  },
  show(most = 200) {
    const {text, rule, severities} = this.filter;
    const fitting = data.findings.filter((each) => severities.has(each.severity) && (!rule || each.rule === rule) &&
      (!text || JSON.stringify(each).toLowerCase().includes(text)));
    this.told.textContent = countText(fitting.length) + " of " + countText(data.findings.length) + " findings";
    this.list.replaceChildren(...fitting.slice(0, most).map((each) => el("li", {class: "finding " + each.severity},
      el("h3", {}, each.severity.toUpperCase() + " " + each.rule + (each.measure ? ": " + each.measure : "")),
      el("p", {}, each.cause + "."),
      each.fix ? el("p", {}, "Fix: " + each.fix + (each.saved_bytes ? ", " + bytesText(each.saved_bytes) + " less" : "") + ".") : null,
      el("p", {class: "faint"}, each.site ? el("code", {}, each.site) : null, each.site ? " " : null,
        each.module ? linkButton(each.module + (each.count > 1 ? " ×" + countText(each.count) : ""), () => modulePart.find(each.module)) : null,
        each.value ? " of " : null, each.value ? linkButton(each.value, () => valuePart.find(each.value)) : null,
        " ", el("code", {}, each.id)))));
    if (fitting.length > most) {
      this.list.append(el("li", {}, linkButton("show all " + countText(fitting.length), () => this.show(Infinity))));
    }
  },
};
