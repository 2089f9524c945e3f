// A line chart of a few series over time, in SVG.
'use strict';

class LineChart {
  // `series`: [{name, style}], `style` being a class of the style sheet. `seconds`: the width.
  constructor(svg, series, seconds, onCursor) {
    this.svg = svg;
    this.series = series;
    this.seconds = seconds;
    this.onCursor = onCursor;
    this.samples = [];
    this.cursor = null;  // seconds before the last sample; null: nothing is pointed at
    svg.addEventListener('pointermove', (event) => this.point(event));
    svg.addEventListener('pointerleave', () => this.setCursor(null));
    svg.addEventListener('blur', () => this.setCursor(null));
    svg.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  // `samples`: [{time, values}], by time in seconds; `values` is null for a gap.
  show(samples) {
    this.samples = samples;
    this.draw();
    this.onCursor(this.atCursor());
  }

  atCursor() {
    if (this.cursor === null || this.samples.length === 0) return null;
    const wanted = this.samples[this.samples.length - 1].time - this.cursor;
    const distance = (sample) => Math.abs(sample.time - wanted);
    return this.samples.reduce((best, next) => (distance(next) < distance(best) ? next : best));
  }

  setCursor(cursor) {
    if (cursor !== null) cursor = Math.min(Math.max(cursor, 0), this.seconds);
    this.cursor = cursor;
    this.draw();
    this.onCursor(this.atCursor());
  }

  point(event) {
    const {left, right} = this.area();
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    this.setCursor((1 - (x - left) / (right - left)) * this.seconds);
  }

  key(event) {
    const step = event.shiftKey ? 10 : 1;
    if (event.key === 'ArrowLeft') this.setCursor((this.cursor ?? 0) + step);
    else if (event.key === 'ArrowRight') this.setCursor((this.cursor ?? 0) - step);
    else if (event.key === 'Escape') this.setCursor(null);
    else return;
    event.preventDefault();
  }

  area() {
    return {left: 48, right: this.svg.clientWidth - 10, top: 8, bottom: this.svg.clientHeight - 20};
  }

  draw() {
    const {left, right, top, bottom} = this.area();
    if (right <= left) return;
    const end = this.samples.length > 0 ? this.samples[this.samples.length - 1].time : 0;
    const highest = Math.max(0, ...this.samples.flatMap((sample) => sample.values ?? []));
    const ticks = LineChart.ticks(highest);
    const most = ticks[ticks.length - 1];
    const x = (time) => right - (end - time) / this.seconds * (right - left);
    const y = (value) => bottom - value / most * (bottom - top);
    const parts = [];
    for (const tick of ticks) {
      parts.push(LineChart.element('line', {x1: left, x2: right, y1: y(tick), y2: y(tick), class: 'grid'}));
      parts.push(LineChart.text(left - 6, y(tick) + 4, 'end', LineChart.short(tick)));
    }
    const every = this.seconds <= 60 ? 15 : right - left < 480 && this.seconds > 180 ? 120 : 60;
    for (let ago = 0; ago <= this.seconds; ago += every) {
      const text = ago === 0 ? 'now' : every < 60 ? `−${ago} s` : `−${ago / 60} min`;
      const anchor = ago === 0 ? 'end' : ago === this.seconds ? 'start' : 'middle';
      parts.push(LineChart.text(x(end - ago), bottom + 15, anchor, text));
    }
    this.series.forEach((one, index) => {
      const path = LineChart.path(this.samples, (sample) => x(sample.time), (sample) => y(sample.values[index]));
      if (path !== '') parts.push(LineChart.element('path', {d: path, class: one.style}));
    });
    const pointed = this.atCursor();
    if (pointed !== null) {
      const at = x(pointed.time);
      parts.push(LineChart.element('line', {x1: at, x2: at, y1: top, y2: bottom, class: 'cursor'}));
    }
    this.svg.replaceChildren(...parts);
  }

  static path(samples, x, y) {
    let path = '';
    let joins = false;
    for (const sample of samples) {
      if (sample.values !== null) {
        path += `${joins ? 'L' : 'M'}${x(sample).toFixed(1)} ${y(sample).toFixed(1)}`;
      }
      joins = sample.values !== null;
    }
    return path;
  }

  // At most five steps of 1, 2 or 5 times a power of ten, from 0 up to `highest` or above.
  static ticks(highest) {
    const least = Math.max(highest, 4) / 4;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
    const ticks = [0];
    do ticks.push(ticks[ticks.length - 1] + step); while (ticks[ticks.length - 1] < highest);
    return ticks;
  }

  static short(value) {
    if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
    if (value >= 1e4) return `${+(value / 1e3).toFixed(1)}k`;
    return String(+value.toFixed(1));
  }

  static element(name, attributes) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  static text(x, y, anchor, content) {
    const made = LineChart.element('text', {x, y, 'text-anchor': anchor});
    made.textContent = content;
    return made;
  }
}
