// The last report of the analytics job, in a frame that may do nothing.
import { useContext } from "preact/hooks";
import { Mesh } from "../amqp/live.ts";
import type { Report } from "../model/report.ts";
import { fragmentOf } from "../model/place.ts";

export function ReportPage() {
  const session = useContext(Mesh);
  const { report } = session;
  if (!session.hasReports) {
    return (
      <p class="hint">
        Routers do not know the report, so the console that a router serves has none. <code>kubectl waymesh console</code> shows
        that of the analytics job; for a mesh of <code>waymesh up</code>, so does <code>waymesh console --report DIR</code>, with
        the folder that <code>waymesh analyze --out DIR</code> wrote.
      </p>
    );
  }
  return (
    <>
      <p>
        {report === null ? "Reading the report…" : typeof report === "string" ? `No report: ${report}` : whenOf(report)}{" "}
        <button onClick={() => void session.readReport()}>Read again</button>
      </p>
      {report !== null && typeof report !== "string"
        ? <iframe key={report.made} class="report" title="The report" sandbox="" referrerpolicy="no-referrer" src={report.page} />
        : null}
      <p class="hint">Searching and sorting need scripts, which may not run here: <code>kubectl waymesh report</code> downloads the page.</p>
    </>
  );
}

function whenOf(report: Report): string {
  const hours = report.first ? `Hours: ${report.first} to ${report.last}. ` : "";
  return `${hours}Made: ${report.made}.`;
}

/** The findings of the last report with what to do; nothing if there is no report. */
export function LastReport() {
  const { report } = useContext(Mesh);
  if (report === null || typeof report === "string") return null;
  return (
    <section aria-label="Findings of the last report" class="faults">
      <h2>Findings of the last report</h2>
      <p class="hint">{whenOf(report)} <a href={fragmentOf("report", {})}>Show the report</a></p>
      {report.findings.length
        ? <ul>{report.findings.map((one) => <li class={one.severity}><strong>{one.text}.</strong> {one.action}</li>)}</ul>
        : <p>None.</p>}
    </section>
  );
}

/** Where the pairs of routers are known; nothing if there is no report. */
export function FlowOfReport() {
  const { report } = useContext(Mesh);
  if (report === null || typeof report === "string") return null;
  return <p class="hint">{whenOf(report)} <a href={fragmentOf("report", {})}>Traffic in the last report</a>, by pairs of routers.</p>;
}
