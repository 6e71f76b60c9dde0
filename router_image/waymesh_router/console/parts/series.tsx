// A chart of rates over the time that the page has watched.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

const POINTS = 300;
/** The shortest time between two points: the answers of all routers make one. */
const APART_S = 1.5;

export interface Series {
  readonly title: string;
  /** A variable of the style sheet. */
  readonly color: string;
}

export function Chart({ series, values, at, label }: { series: readonly Series[]; values: readonly (number | null)[]; at: number; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const data = useRef<(number | null)[][]>([[], ...series.map(() => [])]);
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.getPropertyValue("--dim"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
    const made = new uPlot({
      width: box.clientWidth,
      height: 180,
      legend: { live: true },
      series: [{}, ...series.map(({ title, color }) => ({ label: title, stroke: style.getPropertyValue(color), width: 2, points: { show: false } }))],
      axes: [axis, { ...axis, size: 60 }],
      scales: { x: { range: (_chart, low, high) => [Math.min(low, high - 60), high] }, y: { range: (_chart, _low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
    }, data.current as uPlot.AlignedData, box);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: 180 }));
    watch.observe(box);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolor = (): void => {
      axis.stroke = style.getPropertyValue("--dim");
      axis.grid.stroke = style.getPropertyValue("--line");
      made.redraw();
    };
    scheme.addEventListener("change", recolor);
    return () => {
      scheme.removeEventListener("change", recolor);
      watch.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => {
    const now = Date.now() / 1000;
    const last = data.current[0]?.at(-1) ?? 0;
    if (values.every((value) => value === null) || now - last < APART_S) return;
    const kept = data.current.map((column, index) => [...column, index ? (values[index - 1] ?? null) : now].slice(-POINTS));
    data.current = kept;
    chart.current?.setData(kept as uPlot.AlignedData);
  }, [at]);
  return <div ref={place} class="chart" role="img" aria-label={label} />;
}
