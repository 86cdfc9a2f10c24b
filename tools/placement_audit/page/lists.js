"use strict";
// Elements, texts of numbers, and lists of which only what shows is in the page.

const data = JSON.parse(document.getElementById("data").textContent);

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") {
      for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    } else if (name === "style") {
      for (const [key, text] of Object.entries(value)) made.style.setProperty(key, text);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svgEl(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let power = 0;
  let value = bytes;
  for (; Math.abs(value) >= 1000 && power < 6; ++power) value /= 1024;
  return (power === 0 ? value : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)) + " " + units[power];
}
const orDash = (bytes) => (bytes === 0 ? "–" : bytesText(bytes));
const countText = (count) => count.toLocaleString("en");

let nextId = 0;

// A list or tree of rows of one height, with one of them chosen. `options`: role and rowRole, label,
// rowClass, height, fill(row, index), and as they apply: choose(index), key(event, index), attributes(index).
class VirtualList {
  constructor(box, options) {
    this.box = box;
    this.options = options;
    this.id = "list" + ++nextId;
    this.count = 0;
    this.chosen = -1;
    this.printing = false;
    this.space = el("div", {class: "space", role: "presentation"});
    box.classList.add("list");
    box.setAttribute("role", options.role);
    box.setAttribute("aria-label", options.label);
    box.tabIndex = 0;
    box.append(this.space);
    box.addEventListener("scroll", () => this.draw());
    box.addEventListener("keydown", (event) => this.onKey(event));
    addEventListener("beforeprint", () => { this.printing = true; this.draw(true); });
    addEventListener("afterprint", () => { this.printing = false; this.draw(true); });
    new ResizeObserver(() => this.draw()).observe(box);
  }
  show(count, chosen) {
    this.count = count;
    this.chosen = Math.min(chosen, count - 1);
    this.space.style.height = count * this.options.height + "px";
    this.draw(true);
  }
  draw(anew) {
    const height = this.options.height;
    const most = 300;  // on paper
    const first = this.printing ? 0 : Math.max(0, Math.floor(this.box.scrollTop / height) - 8);
    const shown = this.printing ? most : Math.ceil((this.box.clientHeight || 416) / height) + 16;
    const last = Math.min(this.count, first + shown);
    if (!anew && this.first === first && this.last === last) return;
    this.first = first;
    this.last = last;
    if (this.printing && last < this.count) this.box.dataset.more = "and " + countText(this.count - last) + " more";
    if (this.printing) this.space.style.height = last * height + "px";
    else this.space.style.height = this.count * height + "px";
    this.space.replaceChildren();
    for (let i = first; i < last; ++i) this.space.append(this.row(i));
    if (this.chosen >= first && this.chosen < last) {
      this.box.setAttribute("aria-activedescendant", this.id + "-" + this.chosen);
    } else {
      this.box.removeAttribute("aria-activedescendant");
    }
  }
  row(i) {
    const {options} = this;
    const row = el("div", {
      class: "row " + options.rowClass + (i === this.chosen ? " on" : ""), role: options.rowRole,
      id: this.id + "-" + i, "aria-selected": i === this.chosen ? "true" : "false",
      "aria-posinset": i + 1, "aria-setsize": this.count,
      ...(options.attributes ? options.attributes(i) : {}),
      style: {top: i * options.height + "px", height: options.height + "px"},
      on: {click: (event) => this.choose(i, event)},
    });
    options.fill(row, i);
    return row;
  }
  choose(i, event) {
    if (i < 0 || i >= this.count) return;
    this.chosen = i;
    const height = this.options.height;
    const view = this.box.clientHeight;
    if (i * height < this.box.scrollTop) this.box.scrollTop = i * height;
    if ((i + 1) * height > this.box.scrollTop + view) this.box.scrollTop = (i + 1) * height - view;
    this.draw(true);
    if (this.options.choose) this.options.choose(i, event);
  }
  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.options.height) - 1);
    const to = {
      ArrowDown: this.chosen + 1, ArrowUp: this.chosen - 1, Home: 0, End: this.count - 1,
      PageDown: Math.min(this.count - 1, this.chosen + page), PageUp: Math.max(0, this.chosen - page),
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.choose(Math.max(0, to), event);
    } else if (this.options.key) {
      this.options.key(event, this.chosen);
    }
  }
}

function cell(row, className, text, title) {
  row.append(el("span", {class: className, title: title || text}, text));
}
function linkButton(text, call) {
  return el("button", {class: "link", type: "button", on: {click: call}}, text);
}
// A search box, with what else filters.
function searchBox(label, call, ...others) {
  const input = el("input", {type: "search", "aria-label": label, placeholder: label, on: {input: () => call(input.value)}});
  return el("div", {class: "controls"}, input, ...others);
}
function selectBox(label, choices, call) {
  const select = el("select", {on: {change: () => call(select.value)}},
    ...choices.map(([value, text]) => el("option", {value}, text)));
  return el("label", {}, label, select);
}
function checkBox(label, checked, call) {
  const box = el("input", {type: "checkbox", on: {change: () => call(box.checked)}});
  box.checked = checked;
  return el("label", {}, box, label);
}
function tableOf(heads, rows, numbers) {
  const part = (tag, cells) => el("tr", {}, ...cells.map((text, i) =>
    el(tag, {class: numbers.includes(i) ? "number" : null, scope: tag === "th" ? "col" : null}, text)));
  return el("table", {}, el("thead", {}, part("th", heads)), el("tbody", {}, ...rows.map((row) => part("td", row))));
}
