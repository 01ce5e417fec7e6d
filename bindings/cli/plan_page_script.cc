// The script of a plan's page. It reads the element `data`: lanes with events as runs of five
// numbers (microseconds since the last event, microseconds, kind, micro-batch, stage) and the bytes
// of each coordinate.
#include "bindings/cli/plan_page.h"

namespace plait::cli {

const char* const kPlanPageScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const kinds = ['forward', 'backward', 'input gradients', 'weight gradients', 'waiting for a tensor',
               'waiting for room on a link', 'weights from replicas', 'gradients to replicas', 'optimizer step'];
const letters = ['F', 'B', 'I', 'W', '', '', 'G', 'R', 'S'];
const gutter = 92, top = 18;

const lanes = data.lanes.map(lane => {
  const count = lane.events.length / 5;
  const out = {name: lane.name, isLink: lane.isLink, count,
               begin: new Float64Array(count), end: new Float64Array(count),
               kind: new Uint8Array(count), micro: new Int32Array(count),
               stage: new Int32Array(count)};
  for (let i = 0, time = 0; i < count; ++i) {
    time += lane.events[5 * i];
    out.begin[i] = time;
    time += lane.events[5 * i + 1];
    out.end[i] = time;
    out.kind[i] = lane.events[5 * i + 2];
    out.micro[i] = lane.events[5 * i + 3];
    out.stage[i] = lane.events[5 * i + 4];
  }
  return out;
});
const ranks = lanes.filter(lane => !lane.isLink), links = lanes.filter(lane => lane.isLink);
const whole = data.end;
const view = {from: 0, to: whole};

const isPass = kind => kind < 4;
const chunkOf = stage => Math.floor(stage / data.pipeline);
function colour(kind, stage) {
  const light = 44 + 22 * (data.chunks > 1 ? chunkOf(stage) / (data.chunks - 1) : 0.35);
  if (kind === 0) return `hsl(212,60%,${light}%)`;
  if (kind === 1 || kind === 2) return `hsl(24,72%,${light}%)`;
  if (kind === 3) return `hsl(48,70%,${light}%)`;
  if (kind === 4) return 'rgba(128,128,128,0.28)';
  if (kind === 5) return 'rgba(160,100,190,0.4)';
  if (kind === 8) return 'hsl(150,45%,42%)';
  return 'hsl(285,38%,55%)';
}

function timeText(microseconds) {
  if (microseconds < 1e3) return microseconds.toFixed(0) + ' µs';
  if (microseconds < 1e6) return (microseconds / 1e3).toPrecision(4) + ' ms';
  return (microseconds / 1e6).toPrecision(5) + ' s';
}
function bytesText(bytes) { return (bytes / 2 ** 30).toFixed(bytes < 2 ** 30 ? 3 : 1) + ' GiB'; }

/// First event that ends after `time`.
function firstAfter(lane, time) {
  let low = 0, high = lane.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/// A canvas as wide as the page, in the pixels of the screen.
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 1000;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + 'px';
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px sans-serif';
  context.textBaseline = 'middle';
  return {context, width: width - gutter, ink: getComputedStyle(document.body).color};
}
const xOf = (time, width) => gutter + (time - view.from) / (view.to - view.from) * width;

function drawTicks(paper, height) {
  const {context, width, ink} = paper, span = view.to - view.from;
  const rough = span / Math.max(width / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const tick = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  context.fillStyle = ink;
  context.textAlign = 'left';
  for (let time = Math.ceil(view.from / tick) * tick; time <= view.to; time += tick) {
    const x = xOf(time, width);
    context.globalAlpha = 0.15;
    context.fillRect(x, top, 1, height - top);
    context.globalAlpha = 1;
    context.fillText(timeText(time), x + 2, top / 2);
  }
}

/// Where events are narrower than a pixel: in each column of pixels the shares of kinds, stacked.
function drawShares(paper, lane, first, y, height) {
  const {context, width} = paper, columns = Math.ceil(width);
  const perColumn = (view.to - view.from) / width, sums = [0, 1, 2].map(() => new Float64Array(columns));
  for (let i = first; i < lane.count && lane.begin[i] < view.to; ++i) {
    if (!lane.isLink && (lane.kind[i] === 4 || lane.kind[i] === 5)) continue;
    const sum = sums[lane.kind[i] === 0 ? 0 : isPass(lane.kind[i]) ? 1 : 2];
    const from = Math.max(lane.begin[i] - view.from, 0) / perColumn;
    const to = Math.min(lane.end[i] - view.from, view.to - view.from) / perColumn;
    for (let x = Math.floor(from); x < Math.min(to, columns); ++x) {
      sum[x] += Math.min(to, x + 1) - Math.max(from, x);
    }
  }
  const colours = [colour(0, 0), colour(1, 0), lane.isLink ? colour(6, 0) : colour(8, 0)];
  for (let x = 0; x < columns; ++x) {
    let base = y + height;
    sums.forEach((sum, kind) => {
      if (sum[x] <= 0) return;
      const part = Math.min(sum[x], 1) * height;
      context.fillStyle = colours[kind];
      context.fillRect(gutter + x, base - part, 1, part);
      base -= part;
    });
  }
}

function drawEvents(paper, lane, first, y, height) {
  const {context, width} = paper;
  context.textAlign = 'center';
  for (let i = first; i < lane.count && lane.begin[i] < view.to; ++i) {
    const x = Math.max(xOf(lane.begin[i], width), gutter);
    const wide = Math.min(xOf(lane.end[i], width), gutter + width) - x;
    context.fillStyle = lane.isLink ? colour(6, 0) : colour(lane.kind[i], lane.stage[i]);
    context.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), height);
    const text = lane.isLink ? String(lane.micro[i]) : letters[lane.kind[i]] + lane.micro[i];
    if (letters[lane.kind[i]] === '' && !lane.isLink || height < 9 || wide < 7 * text.length) continue;
    context.fillStyle = '#fff';
    context.fillText(text, x + wide / 2, y + height / 2 + 0.5);
  }
}

function drawLanes(canvas, list, height) {
  const all = top + list.length * height + 4, paper = prepare(canvas, all);
  drawTicks(paper, all);
  list.forEach((lane, row) => {
    const y = top + row * height, first = firstAfter(lane, view.from);
    paper.context.fillStyle = 'rgba(128,128,128,0.10)';
    paper.context.fillRect(gutter, y, paper.width, height - 1);
    const isDense = firstAfter(lane, view.to) - first > paper.width * 0.7;
    (isDense ? drawShares : drawEvents)(paper, lane, first, y, height - 1);
    if (height < 10 && row % Math.ceil(11 / height) !== 0) return;
    paper.context.fillStyle = paper.ink;
    paper.context.textAlign = 'right';
    paper.context.fillText(lane.name, gutter - 5, y + height / 2);
  });
}

/// Times and micro-batches alive of a coordinate, from its passes.
const curves = ranks.map((lane, row) => {
  const times = [0], alive = [0];
  let now = 0, most = 1;
  for (let i = 0; i < lane.count; ++i) {
    const kind = lane.kind[i];
    if (kind !== 0 && kind !== 1 && kind !== 3) continue;
    now += kind === 0 ? 1 : -1;
    most = Math.max(most, now);
    times.push(kind === 0 ? lane.begin[i] : lane.end[i]);
    alive.push(now);
  }
  const memory = data.memory[row], scale = memory.activations / most;
  return {times, bytes: alive.map(count => memory.fixed + count * scale), most: memory.fixed + memory.activations};
});
const curveColour = row => `hsl(${212 - 188 * (ranks.length > 1 ? row / (ranks.length - 1) : 0)},65%,52%)`;

function drawMemory(canvas) {
  const height = 220, paper = prepare(canvas, height), {context, width, ink} = paper;
  drawTicks(paper, height);
  const most = 1.06 * Math.max(data.limit, ...curves.map(curve => curve.most));
  const yOf = bytes => height - 2 - bytes / most * (height - top - 4);
  context.lineWidth = 1.2;
  curves.forEach((curve, row) => {
    context.strokeStyle = curveColour(row);
    context.globalAlpha = curves.length > 16 ? 0.55 : 1;
    context.beginPath();
    let y = yOf(curve.bytes[0]);
    context.moveTo(gutter, y);
    for (let i = 0; i < curve.times.length && curve.times[i] < view.to; ++i) {
      const x = Math.max(xOf(curve.times[i], width), gutter);
      context.lineTo(x, y);
      y = yOf(curve.bytes[i]);
      context.lineTo(x, y);
    }
    context.lineTo(gutter + width, y);
    context.stroke();
  });
  context.globalAlpha = 1;
  context.fillStyle = ink;
  context.textAlign = 'right';
  for (let i = 0; i <= 4; ++i) {
    context.fillText(bytesText(most * i / 4), gutter - 5, Math.min(Math.max(yOf(most * i / 4), top + 6), height - 8));
  }
  context.strokeStyle = ink;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(gutter, yOf(data.limit));
  context.lineTo(gutter + width, yOf(data.limit));
  context.stroke();
  context.setLineDash([]);
  context.textAlign = 'left';
  context.fillText('a device has ' + bytesText(data.limit), gutter + 6, yOf(data.limit) + 9);
}

const canvases = ['lanes', 'links', 'memory'].map(id => document.getElementById(id));
const rankHeight = Math.max(8, Math.min(22, Math.floor(560 / ranks.length)));
const linkHeight = Math.max(6, Math.min(16, Math.floor(300 / Math.max(links.length, 1))));
let isWaiting = false;
function draw() {
  isWaiting = false;
  drawLanes(canvases[0], ranks, rankHeight);
  if (links.length > 0) drawLanes(canvases[1], links, linkHeight);
  drawMemory(canvases[2]);
}
function redraw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(draw);
}
function look(from, to) {
  const span = Math.min(Math.max(to - from, 5), whole);
  view.from = Math.min(Math.max(from, 0), whole - span);
  view.to = view.from + span;
  redraw();
}
function zoom(factor, at) {
  const middle = at === undefined ? (view.from + view.to) / 2 : at;
  look(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
}

/// Wide enough for the fill of the pipeline and a few passes more.
function edge() {
  const last = ranks[ranks.length - 1];
  return last.count > 0 ? Math.min(last.begin[0] * 1.5 + 6 * (last.end[0] - last.begin[0]), whole) : whole;
}
const actions = {whole: () => look(0, whole), begin: () => look(0, edge()),
                 end: () => look(whole - edge(), whole), closer: () => zoom(0.5), further: () => zoom(2)};
for (const name of Object.keys(actions)) document.getElementById(name).onclick = actions[name];

const tip = document.getElementById('tip');
const timeAt = (canvas, x) => view.from + (x - gutter) / (canvas.clientWidth - gutter) * (view.to - view.from);
function describe(list, height, canvas, x, y) {
  const row = Math.floor((y - top) / height), lane = list[row];
  if (!lane || x < gutter) return '';
  const time = timeAt(canvas, x), i = firstAfter(lane, time);
  if (i >= lane.count || lane.begin[i] > time) return `${lane.name}: idle at ${timeText(time)}`;
  const what = lane.isLink ? 'message' : kinds[lane.kind[i]];
  const which = lane.kind[i] === 8 ? '' : ` of micro-batch ${lane.micro[i]}, stage ${lane.stage[i]}`;
  return `${lane.name}: ${what}${which}; ${timeText(lane.end[i] - lane.begin[i])} from ${timeText(lane.begin[i])} on`;
}
canvases.forEach((canvas, index) => {
  let held = null;
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(canvas, event.offsetX));
  }, {passive: false});
  canvas.addEventListener('pointerdown', event => { held = event.offsetX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointermove', event => {
    if (held !== null) {
      const moved = timeAt(canvas, held) - timeAt(canvas, event.offsetX);
      held = event.offsetX;
      look(view.from + moved, view.to + moved);
    }
    if (index === 2) {
      tip.textContent = timeText(timeAt(canvas, event.offsetX));
    } else {
      const [list, height] = index === 0 ? [ranks, rankHeight] : [links, linkHeight];
      tip.textContent = describe(list, height, canvas, event.offsetX, event.offsetY) || tip.textContent;
    }
  });
});
if (links.length === 0) document.getElementById('wires').hidden = true;
window.addEventListener('resize', redraw);
redraw();
)js";

}  // namespace plait::cli
