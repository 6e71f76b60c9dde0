// A chart of rates over the time that the page has watched.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

const POINTS = 300;
/** The shortest time between two points: the answers of all routers make one. */
const APART_S = 1.5;

const clock = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString(undefined, { hour12: false });

export interface Series {
  readonly title: string;
  /** A variable of the style sheet. */
  readonly color: string;
}

/** At least a minute, also before the first point. */
function lastMinute(low: number | null, high: number | null): [number, number] {
  const end = high ?? Date.now() / 1000;
  return [Math.min(low ?? end, end - 60), end];
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
      series: [{ value: (_chart, seconds: number | null) => (seconds === null ? "–" : clock(seconds)) }, ...series.map(({ title, color }) => ({ label: title, stroke: style.getPropertyValue(color), width: 2, points: { show: false } }))],
      axes: [{ ...axis, values: (_chart, splits) => splits.map(clock) }, { ...axis, size: 60 }],
      scales: { x: { range: (_chart, low: number | null, high: number | null) => lastMinute(low, high) }, y: { range: (_chart, _low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
    }, data.current as uPlot.AlignedData, box);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: 180 }));
    watch.observe(box);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolor = (): void => {
      for (const each of made.axes) {
        each.stroke = () => style.getPropertyValue("--dim");
        if (each.grid) each.grid.stroke = () => style.getPropertyValue("--line");
      }
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
