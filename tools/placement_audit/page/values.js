// The values, and a picture of which rank holds what of the one that is chosen.

const valuePart = {
  build(section) {
    // [name, spec, role, module, bytes, count, step that makes it]; the spec is −1 for a plain value.
    this.all = data.values;
    this.box = searchBox("find a value", (text) => { this.text = text.toLowerCase(); this.show(0); });
    this.told = el("p", {class: "faint", "aria-live": "polite"});
    const list = el("div", {id: "value-list"});
    this.detail = el("div", {class: "detail", id: "value-detail"});
    section.append(this.box, this.told, el("div", {class: "row value-row heads", "aria-hidden": "true"},
      el("span", {}, "value"), el("span", {class: "placed"}, "placed"), el("span", {class: "role"}, "role"),
      el("span", {class: "number"}, "a rank")), list, this.detail);
    this.list = new VirtualList(list, {
      role: "listbox", rowRole: "option", label: "values", rowClass: "value-row", height: 25,
      fill: (row, i) => {
        const [name, spec, role, , bytes, count] = this.all[this.rows[i]];
        cell(row, "name", name + (count > 1 ? " ×" + countText(count) : ""));
        cell(row, "placed faint", data.specs[spec].text);
        cell(row, "role faint", data.roles[role]);
        cell(row, "number", bytesText(bytes));
      },
      choose: (i) => this.tell(this.rows[i]),
    });
    this.text = "";
    this.show(0);
    const cut = this.all.findIndex((value) => data.specs[value[1]].dims.some((levels) => levels.length));
    if (this.all.length) this.tell(Math.max(0, cut));
  },
  show(chosen) {
    this.rows = [];
    this.all.forEach((value, i) => { if (!this.text || value[0].toLowerCase().includes(this.text)) this.rows.push(i); });
    this.told.textContent = countText(this.rows.length) + " of " + countText(this.all.length) + " values";
    this.list.show(this.rows.length, chosen);
    if (this.rows.length && this.text) this.tell(this.rows[0]);
  },
  // A name with a star stands for those that have a number there.
  find(name) {
    const star = name.indexOf("*");
    let at = this.all.findIndex((value) => value[0] === name);
    if (at < 0 && star >= 0) {
      at = this.all.findIndex((value) => value[0].startsWith(name.slice(0, star)) && value[0].endsWith(name.slice(star + 1)));
    }
    if (at >= 0) this.choose(at);
  },
  choose(at) {
    this.text = "";
    this.box.querySelector("input").value = "";
    this.show(0);
    this.list.choose(at);
    document.getElementById("values").scrollIntoView();
  },
  tell(at) {
    const [name, specIndex, role, path, bytes, count, made] = this.all[at];
    const spec = data.specs[specIndex];
    const facts = [data.roles[role], bytesText(bytes) + " on the rank with most"];
    if (count > 1) facts.push("one for each of " + countText(count) + " rounds");
    this.detail.replaceChildren(el("h3", {}, name), el("p", {}, el("code", {}, spec.text)), el("p", {}, facts.join(" · "),
      data.paths[path] ? " · " : "", data.paths[path] ? linkButton(data.paths[path], () => modulePart.find(data.paths[path])) : "",
      made >= 0 ? " · made by " : "", made >= 0 ? linkButton("step " + countText(made), () => { stepPart.find(""); stepPart.list.choose(made); }) : ""));
    if (spec.mesh >= 0 && spec.placed) this.detail.append(...this.picture(spec));
  },

  // Indices of a dim that a coord holds, as [start, stop) pairs; null where they are too many to list.
  held(levels, size, mesh, coord) {
    let pieces = [[0, size]];
    for (const [kind, number, grain, parts] of levels) {
      const next = [];
      for (const [start, stop] of pieces) {
        const length = stop - start;
        const cutInto = (parts) => Math.ceil(Math.ceil(length / grain) / parts) * grain;
        if (parts) {  // stated sizes: [coord, start, stop] of those that hold something
          const own = parts.find(([owner]) => owner === coord[number]);
          if (own) next.push([start + Math.min(length, own[1]), start + Math.min(length, own[2])]);
        } else if (kind === "axis") {
          const chunk = cutInto(mesh.shape[number]);
          const begin = Math.min(length, chunk * coord[number]);
          next.push([start + begin, start + Math.min(length, begin + chunk)]);
        } else {
          const chunk = kind === "run" ? number : cutInto(number);
          if (chunk <= 0 || length / chunk > 256) return null;
          for (let at = 0; at < length; at += chunk) next.push([start + at, Math.min(stop, start + at + chunk)]);
        }
      }
      if (next.length > 256) return null;
      pieces = next;
    }
    pieces = pieces.filter(([start, stop]) => stop > start);
    const merged = [];
    for (const piece of pieces) {
      const last = merged[merged.length - 1];
      if (last && last[1] === piece[0]) last[1] = piece[1];
      else merged.push([...piece]);
    }
    return merged;
  },
  coordOf(mesh, rank) {
    const coord = [];
    let rest = rank;
    for (let axis = mesh.shape.length - 1; axis >= 0; --axis) {
      coord[axis] = rest % mesh.shape[axis];
      rest = Math.floor(rest / mesh.shape[axis]);
    }
    return coord;
  },
  partText(spec, mesh, coord) {
    const dims = spec.shape.map((size, dim) => {
      const levels = spec.dims[dim];
      if (!levels.length) return "dim " + dim + ": all " + countText(size);
      const held = this.held(levels, size, mesh, coord);
      if (held === null) return "dim " + dim + ": many stretches";
      if (!held.length) return "dim " + dim + ": nothing";
      const shown = held.slice(0, 4).map(([start, stop]) => (stop - start === 1 ? String(start) : start + "–" + (stop - 1)));
      return "dim " + dim + ": " + shown.join(", ") + (held.length > 4 ? ", …" : "");
    });
    return dims.length ? dims.join("; ") : "a scalar";
  },
  picture(spec) {
    const mesh = data.meshes[spec.mesh];
    const ranks = mesh.shape.reduce((product, size) => product * size, 1);
    const axesThat = (test) => mesh.shape.map((size, axis) => axis).filter((axis) => mesh.shape[axis] > 1 && test(axis));
    const cuts = axesThat((axis) => spec.dims.some((levels) => levels.some(([kind, number]) => kind === "axis" && number === axis)));
    const partial = axesThat((axis) => spec.partial[axis]);
    const names = (axes) => axes.map((axis) => mesh.axes[axis] || String(axis)).join(", ");
    const product = (axes) => axes.reduce((all, axis) => all * mesh.shape[axis], 1);
    const told = [];
    if (cuts.length) told.push(`cut over ${names(cuts)} into ${countText(product(cuts))} parts`);
    for (const axis of partial) told.push(`a ${spec.partial[axis]} over ${names([axis])}: each rank has a part of every number`);
    const copies = ranks / Math.max(1, product(cuts) * product(partial));
    told.push(copies === 1 ? "each on one rank" : `each on ${countText(copies)} ranks`);
    // All ranks where they fit; else one for each part.
    const most = 1024;
    const axes = ranks <= most ? mesh.shape.map((size, axis) => axis) : cuts.concat(partial).sort((a, b) => a - b);
    const cells = product(axes);
    const last = axes.length ? mesh.shape[axes[axes.length - 1]] : 1;
    const columns = cells > 128 && last <= 32 ? last * Math.floor(64 / last) : Math.min(64, last);
    const grid = el("div", {class: "mesh" + (cells > 128 ? " small" : ""), role: "group", id: "mesh",
      "aria-label": "ranks by the part that they hold"});
    grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, ${cells > 128 ? 18 : 74}px))`;
    const readOff = el("p", {"aria-live": "polite", id: "mesh-told"});
    const parts = new Map();
    const buttons = [];
    const press = (i) => {
      buttons.forEach((button, at) => { button.setAttribute("aria-pressed", String(at === i)); button.tabIndex = at === i ? 0 : -1; });
      readOff.textContent = buttons[i].title;
    };
    for (let i = 0; i < Math.min(cells, most); ++i) {
      const coord = mesh.shape.map(() => 0);
      let rest = i;
      for (let at = axes.length - 1; at >= 0; --at) {
        coord[axes[at]] = rest % mesh.shape[axes[at]];
        rest = Math.floor(rest / mesh.shape[axes[at]]);
      }
      const key = cuts.map((axis) => coord[axis]).join(",");
      if (!parts.has(key)) parts.set(key, parts.size);
      const part = parts.get(key);
      const rank = mesh.first + mesh.shape.reduce((all, size, axis) => all * size + coord[axis], 0);
      const where = mesh.shape.map((size, axis) => (mesh.axes[axis] || axis) + " " + coord[axis]).join(", ");
      const title = `${ranks <= most ? "" : "the first of its part, "}rank ${rank} (${where}) holds part ${part}: ${this.partText(spec, mesh, coord)}`;
      buttons.push(el("button", {type: "button", title, "aria-label": title, "aria-pressed": "false",
        style: {"--hue": String(Math.round(part * 137.508) % 360)}, on: {click: () => press(i)}}, String(rank)));
    }
    grid.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns}[event.key];
      const now = buttons.indexOf(document.activeElement);
      if (step === undefined || now < 0 || !buttons[now + step]) return;
      event.preventDefault();
      press(now + step);
      buttons[now + step].focus();
    });
    grid.append(...buttons);
    press(0);
    const rows = axes.slice(0, -1).filter((axis) => mesh.shape[axis] > 1);
    const order = columns !== last || last === 1 ? "Ranks stand row by row" : axes.length ?
      `columns: ${names([axes[axes.length - 1]])}` + (rows.length ? `; rows: ${names(rows)}` : "") : "";
    const note = cells > most ? `; the first ${countText(most)} of ${countText(cells)} parts are drawn` :
      ranks > most ? "; one cell for each part" : "";
    return [el("p", {class: "faint"}, `${countText(ranks)} ranks of ${mesh.name}: ${told.join("; ")}. ${order}${note}`), grid, readOff];
  },
};
