// What a rank of each stage holds over the step.

const memoryPart = {
  chosen: 0,
  stageName(stage) {
    const ranks = stage.ranks === 1 ? "rank " + stage.first_rank :
      countText(stage.ranks) + " ranks from " + stage.first_rank;
    return stage.stage === null ? ranks : "stage " + stage.stage + ", " + ranks;
  },
  build(section) {
    const stages = data.memory;
    if (!stages) {
      section.append(el("p", {class: "warn"}, data.memory_error));
      return;
    }
    this.chosen = stages.reduce((best, stage, i) => (stage.peak_bytes > stages[best].peak_bytes ? i : best), 0);
    if (stages.length > 1) {
      const select = selectBox("of", stages.map((stage, i) => [i, this.stageName(stage) + ": " + bytesText(stage.peak_bytes)]),
        (value) => { this.chosen = Number(value); this.show(); });
      select.querySelector("select").value = this.chosen;
      section.append(el("div", {class: "controls"}, select));
    }
    this.verdict = el("p", {id: "verdict"});
    this.picture = el("div", {});
    this.range = el("input", {type: "range", min: 0, step: 1, "aria-label": "step to read off",
      on: {input: () => this.readOff()}});
    this.table = el("div", {});
    this.holders = el("div", {});
    section.append(this.verdict, this.picture, this.range, el("div", {class: "columns"}, this.table, this.holders));
    this.show();
    let width = 0;
    new ResizeObserver(() => {
      if (this.picture.clientWidth !== width) this.draw();
      width = this.picture.clientWidth;
    }).observe(this.picture);
  },
  show() {
    const stage = data.memory[this.chosen];
    const over = data.cap !== null && stage.peak_bytes > data.cap;
    const where = stage.peak.path === "" ? "before the first step" :
      "at step " + countText(stage.peak.step) +
      (stage.peak.phase ? ", " + stage.peak.phase : "") + (stage.peak.module ? " of " + stage.peak.module : "") +
      (stage.peak.site ? " (" + stage.peak.site + ")" : "");
    this.verdict.className = over ? "bad" : data.cap === null ? "" : "good";
    this.verdict.textContent = "A rank holds up to " + bytesText(stage.peak_bytes) +
      (data.cap === null ? "" : (over ? ", above" : ", within") + " the cap of " + bytesText(data.cap)) + ": " + where + ".";
    const points = stage.timeline;
    this.range.max = points.length - 1;
    this.range.value = points.findIndex((point) => point[1] === stage.peak_bytes);
    this.tellHolders(12);
    this.draw();
  },
  tellHolders(most) {
    const holders = data.memory[this.chosen].holders;
    this.holders.replaceChildren(el("h3", {}, "Held at the peak"), tableOf(["what", "kind", "values", "bytes"],
      holders.slice(0, most).map((each) => [el("span", {}, linkButton(each.name, () => valuePart.find(each.name)),
        each.module && !each.name.startsWith(each.module) ? el("span", {class: "faint"}, " in " + each.module) : null), each.kind, countText(each.count), bytesText(each.bytes)]), [2, 3]));
    if (holders.length > most) {
      this.holders.append(el("p", {}, linkButton("and " + countText(holders.length - most) + " more", () => this.tellHolders(Infinity))));
    }
  },
  draw() {
    const stage = data.memory[this.chosen];
    const points = stage.timeline;
    const width = Math.max(280, this.picture.clientWidth);
    const height = 240;
    const left = 62, right = 12, top = 14, bottom = 24;
    const last = Math.max(1, points[points.length - 1][0]);
    const most = Math.max(1, stage.peak_bytes, data.cap !== null && data.cap < 3 * stage.peak_bytes ? data.cap : 0) * 1.04;
    this.x = (step) => left + (width - left - right) * step / last;
    const y = (bytes) => height - bottom - (height - top - bottom) * bytes / most;
    const svg = svgEl("svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
    svg.append(svgEl("title", {}, `Bytes held by kind over ${countText(last + 1)} steps, at most ${bytesText(stage.peak_bytes)}`));
    for (let i = 0; i <= 4; ++i) {
      const bytes = most / 1.04 * i / 4;
      svg.append(svgEl("line", {class: "axis", x1: left, x2: width - right, y1: y(bytes), y2: y(bytes)}),
        svgEl("text", {x: left - 6, y: y(bytes) + 4, "text-anchor": "end"}, bytesText(Math.round(bytes))));
    }
    const sums = points.map(() => 0);
    data.kinds.forEach((kind, k) => {
      const upper = [], lower = [];
      points.forEach((point, i) => {
        const end = i + 1 < points.length ? points[i + 1][0] : point[0];
        lower.push([point[0], sums[i]], [end, sums[i]]);
        sums[i] += point[2 + k];
        upper.push([point[0], sums[i]], [end, sums[i]]);
      });
      if (points.every((point) => point[2 + k] === 0)) return;
      const place = ([step, bytes]) => this.x(step).toFixed(1) + "," + y(bytes).toFixed(1);
      svg.append(svgEl("polygon", {points: upper.concat(lower.reverse()).map(place).join(" "), style: `fill:var(--k${k})`}));
    });
    if (data.cap !== null && data.cap <= most) {
      svg.append(svgEl("line", {class: "cap", x1: left, x2: width - right, y1: y(data.cap), y2: y(data.cap)}),
        svgEl("text", {class: "cap-text", x: width - right, y: y(data.cap) - 4, "text-anchor": "end"}, "cap " + bytesText(data.cap)));
    }
    svg.append(svgEl("text", {x: left, y: height - 6}, "step 0"),
      svgEl("text", {x: width - right, y: height - 6, "text-anchor": "end"}, countText(last)));
    this.here = svgEl("line", {class: "here", y1: top, y2: height - bottom});
    svg.append(this.here);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const step = ((event.clientX - box.left) * width / box.width - left) / (width - left - right) * last;
      let at = 0;
      while (at + 1 < points.length && points[at + 1][0] <= step) ++at;
      this.range.value = at;
      this.readOff();
    });
    this.picture.replaceChildren(svg);
    this.range.style.marginLeft = left - 8 + "px";
    this.range.style.width = width - left - right + 16 + "px";
    this.readOff();
  },
  readOff() {
    const stage = data.memory[this.chosen];
    const point = stage.timeline[Number(this.range.value)];
    this.here.setAttribute("x1", this.x(point[0]));
    this.here.setAttribute("x2", this.x(point[0]));
    this.range.setAttribute("aria-valuetext", "step " + point[0] + ": " + bytesText(point[1]));
    const rows = data.kinds.map((kind, k) => [
      el("span", {}, el("span", {class: "chip", style: {background: `var(--k${k})`}}), kind),
      orDash(point[2 + k]), orDash(stage.at_peak[k])]);
    rows.push(["all", bytesText(point[1]), bytesText(stage.peak_bytes)]);
    this.table.replaceChildren(el("h3", {}, "By kind"), tableOf(["", "at step " + countText(point[0]), "at the peak"], rows, [1, 2]));
  },
};
