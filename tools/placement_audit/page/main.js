// The page from its data: which parts come first is the command's to say.

function build() {
  document.title = data.name + " – " + data.title;
  const tile = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const all = data.modules[0];
  const tiles = [tile("ranks", countText(data.ranks)), tile("steps", countText(all[3])),
    tile("received by a rank", bytesText(all[5])), tile("of it implicit", bytesText(all[7]))];
  if (data.memory) tiles.push(tile("most held by a rank", bytesText(Math.max(...data.memory.map((stage) => stage.peak_bytes)))));
  if (data.findings) tiles.push(tile("findings", countText(data.findings.length)));
  const parts = {
    memory: ["Memory over the step", memoryPart], modules: ["Modules", modulePart],
    findings: ["Findings", findingPart], values: ["Values and who holds them", valuePart], steps: ["Steps", stepPart],
  };
  const order = [data.first, ...Object.keys(parts).filter((name) => name !== data.first)].filter((name) => name !== "findings" || data.findings);
  const main = document.querySelector("main");
  document.querySelector("header").append(el("h1", {}, data.name), el("p", {class: "faint"}, data.about),
    el("nav", {"aria-label": "parts of the page"}, el("ul", {}, ...order.map((name) => el("li", {}, el("a", {href: "#" + name}, parts[name][0]))))));
  main.append(el("dl", {class: "tiles"}, ...tiles));
  if (data.warnings.length) {
    main.append(el("ul", {class: "warn"}, ...data.warnings.map((text) => el("li", {}, text))));
  }
  for (const name of order) {
    const section = el("section", {id: name, "aria-labelledby": name + "-head"}, el("h2", {id: name + "-head"}, parts[name][0]));
    main.append(section);
    parts[name][1].build(section);
  }
  document.documentElement.dataset.ready = "yes";
}
build();
