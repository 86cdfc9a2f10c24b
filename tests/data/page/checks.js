"use strict";
// Uses a page of placement-audit as a reader would, in a frame of each width, and writes a line for each check
// that fails and one with how many there were. `page` is the text of the page, `settings` what the test expects.

const lines = [];
let checked = 0;
function check(holds, what) {
  ++checked;
  if (!holds) lines.push("FAIL " + what);
}
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

function luminance(colour) {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a, b) {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}
const parts = (text) => text.match(/[\d.]+/g).map(Number);
function groundOf(win, element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(win.getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3);
  }
  return [255, 255, 255];
}

function checkLooks(win, name) {
  const doc = win.document;
  const wide = doc.documentElement.clientWidth;
  check(doc.documentElement.scrollWidth <= wide, `${name}: the page is ${doc.documentElement.scrollWidth} wide in ${wide}`);
  for (const each of doc.querySelectorAll("header *, main *")) {
    const box = each.getBoundingClientRect();
    if (box.width > 0 && !each.closest(".row") && (box.right > wide + 1 || box.left < -1)) {
      check(false, `${name}: <${each.tagName} class=${each.className}> reaches from ${box.left} to ${box.right} in ${wide}`);
      break;
    }
  }
  let worst = [99, ""];
  for (const each of doc.querySelectorAll("header *, main *")) {
    const hasText = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
    if (!hasText || each.closest("svg") || each.closest("option") || each.getBoundingClientRect().width === 0) continue;
    if (parseFloat(win.getComputedStyle(each).fontSize) === 0) continue;
    const ratio = contrast(parts(win.getComputedStyle(each).color).slice(0, 3), groundOf(win, each));
    if (ratio < worst[0]) worst = [ratio, `${each.tagName}.${each.className} "${each.textContent.slice(0, 30)}"`];
  }
  check(worst[0] >= 4.5, `${name}: a contrast of ${worst[0].toFixed(2)}: ${worst[1]}`);
  for (const each of doc.querySelectorAll("svg text")) {
    check(contrast(parts(win.getComputedStyle(each).fill).slice(0, 3), groundOf(win, each)) >= 4.5, `${name}: the drawing's text`);
  }
  for (const each of doc.querySelectorAll("input, select, button, [tabindex='0']")) {
    const label = each.getAttribute("aria-label") || each.textContent.trim() || (each.closest("label") || each).textContent.trim();
    check(label !== "", `${name}: ${each.tagName} without a name`);
  }
}

function press(win, element, key) {
  element.dispatchEvent(new win.KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
}
function type(win, input, text) {
  input.value = text;
  input.dispatchEvent(new win.Event("input", {bubbles: true}));
}
const numberIn = (element) => Number(element.textContent.replaceAll(",", "").match(/\d+/)[0]);

function checkTree(win, name) {
  const doc = win.document;
  const tree = doc.querySelector("[role=tree]");
  check(tree.tabIndex === 0, `${name}: the tree can be reached`);
  const rows = () => Math.round(parseFloat(tree.querySelector(".space").style.height) / 27);
  const active = () => doc.getElementById(tree.getAttribute("aria-activedescendant"));
  tree.focus();
  press(win, tree, "Home");
  check(active().getAttribute("aria-level") === "1", `${name}: Home is the first row`);
  if (active().getAttribute("aria-expanded") === "true") {
    const before = rows();
    press(win, tree, "ArrowLeft");
    check(rows() === 1 && before > 1, `${name}: ArrowLeft closes (${before} rows, then ${rows()})`);
    press(win, tree, "ArrowRight");
    check(rows() > 1, `${name}: ArrowRight opens`);
    press(win, tree, "ArrowRight");
    check(active().getAttribute("aria-level") === "2", `${name}: ArrowRight again goes in`);
    press(win, tree, "ArrowLeft");
    press(win, tree, "ArrowLeft");
    const opened = rows();
    active().querySelector(".twisty").click();
    check(rows() !== opened || opened === 1, `${name}: a click on the sign opens and closes`);
    press(win, tree, "Home");
    if (active().getAttribute("aria-expanded") === "false") press(win, tree, "Enter");
    press(win, tree, "ArrowDown");
    check(doc.getElementById("module-detail").textContent.includes("collectives"), `${name}: the module is told`);
  }
  const search = doc.querySelector("#modules input[type=search]");
  type(win, search, "no such module");
  check(rows() === 0, `${name}: a search that finds nothing shows nothing`);
  type(win, search, "");
  check(rows() > 0, `${name}: without a search all is back`);
}

function checkSteps(win, name) {
  const doc = win.document;
  const told = doc.getElementById("steps-told");
  const all = numberIn(told);
  check(all === settings.steps, `${name}: ${all} steps, not ${settings.steps}`);
  check(doc.querySelectorAll("#step-list .row").length <= 60, `${name}: only what shows is in the page`);
  const list = doc.getElementById("step-list");
  press(win, list, "End");
  check(doc.getElementById(list.getAttribute("aria-activedescendant")).getAttribute("aria-posinset") === String(all),
    `${name}: End is the last step`);
  const moves = doc.querySelector("#steps input[type=checkbox]");
  moves.click();
  check(numberIn(told) < all && numberIn(told) > 0, `${name}: only what moves: ${told.textContent}`);
  moves.click();
  type(win, doc.querySelector("#steps input[type=search]"), settings.word);
  check(numberIn(told) > 0 && numberIn(told) < all, `${name}: steps with ${settings.word}: ${told.textContent}`);
  type(win, doc.querySelector("#steps input[type=search]"), "");
}

function checkValues(win, name) {
  const doc = win.document;
  type(win, doc.querySelector("#values input[type=search]"), settings.value);
  const mesh = doc.getElementById("mesh");
  check(mesh !== null && mesh.children.length === settings.cells, `${name}: ${mesh && mesh.children.length} cells, not ${settings.cells}`);
  const told = doc.getElementById("mesh-told").textContent;
  check(told.includes("holds part 0") && told.includes("dim 0"), `${name}: ${told}`);
  mesh.children[0].focus();
  press(win, mesh.children[0], "ArrowRight");
  check(doc.getElementById("mesh-told").textContent !== told, `${name}: ArrowRight is the next rank`);
  check(mesh.children[1].getAttribute("aria-pressed") === "true", `${name}: which is marked`);
  mesh.children[0].click();
  check(doc.getElementById("mesh-told").textContent === told, `${name}: a click chooses a rank`);
  type(win, doc.querySelector("#values input[type=search]"), "");
}

function checkMemory(win, name) {
  const doc = win.document;
  check(doc.querySelectorAll("#memory polygon").length > 0, `${name}: the memory is drawn`);
  const range = doc.querySelector("#memory input[type=range]");
  const head = () => doc.querySelector("#memory thead").textContent;
  range.value = 0;
  range.dispatchEvent(new win.Event("input", {bubbles: true}));
  check(head().includes("at step 0"), `${name}: the step is read off: ${head()}`);
  const link = doc.querySelector("#memory table button.link");
  link.click();
  check(doc.querySelector("#value-detail h3") !== null, `${name}: a holder leads to its value`);
}

function checkFindings(win, name) {
  const doc = win.document;
  const section = doc.getElementById("findings");
  check((section !== null) === settings.findings > 0, `${name}: findings`);
  if (!section) return;
  const told = doc.getElementById("findings-told");
  check(numberIn(told) === settings.findings, `${name}: ${told.textContent}`);
  for (const box of section.querySelectorAll("input[type=checkbox]")) box.click();
  check(numberIn(told) === 0, `${name}: no severity, no finding`);
  for (const box of section.querySelectorAll("input[type=checkbox]")) box.click();
  type(win, section.querySelector("input[type=search]"), "no such finding");
  check(numberIn(told) === 0, `${name}: a search in findings`);
  type(win, section.querySelector("input[type=search]"), "");
  check(numberIn(told) === settings.findings, `${name}: all findings again`);
}

async function checkAt(width) {
  const name = width + " pixels";
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 900;
  const loaded = new Promise((done) => frame.addEventListener("load", done));
  frame.srcdoc = page;
  document.body.append(frame);
  await loaded;
  await wait(300);
  const win = frame.contentWindow;
  check(win.document.documentElement.dataset.ready === "yes", `${name}: the page is built`);
  check(win.innerWidth === width, `${name}: the frame is ${win.innerWidth} wide`);
  if (win.document.documentElement.dataset.ready === "yes") {
    checkLooks(win, name);
    checkMemory(win, name);
    checkTree(win, name);
    checkSteps(win, name);
    checkValues(win, name);
    checkFindings(win, name);
    await wait(300);
    checkLooks(win, name + ", used");
    win.dispatchEvent(new win.Event("beforeprint"));
    check(win.document.querySelectorAll("#step-list .row").length === Math.min(300, settings.steps), `${name}: paper has the steps`);
    win.dispatchEvent(new win.Event("afterprint"));
  }
  for (const failure of win.failures) check(false, `${name}: its console says: ${failure}`);
  frame.remove();
}

(async () => {
  try {
    for (const width of [1200, 400]) await checkAt(width);
  } catch (error) {
    lines.push("FAIL the checks: " + error.stack);
  }
  const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.body.textContent = lines.concat(`${checked} checks in ${scheme}`).join("\n");
})();
