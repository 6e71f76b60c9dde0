// What summary.json of a report says. It may come from anybody: each field is checked, and is only ever shown as text.

export interface Finding {
  readonly severity: "bad" | "warning";
  readonly text: string;
  readonly action: string;
}

export interface Report {
  /** Path of its page, for a frame. */
  readonly page: string;
  readonly made: string;
  readonly headline: string;
  readonly first: string;
  readonly last: string;
  readonly findings: readonly Finding[];
}

export const MOST_FINDINGS = 100;
const MOST_LETTERS = 2000;

/** The answer of the command: a report, or why there is none. Raises TypeError if it is neither. */
export function reportOf(answer: unknown): Report | string {
  const { page, summary, reason } = fields(answer);
  if (typeof reason === "string") return reason;
  const said = fields(summary);
  const hours = fields(said["hours"]);
  const findings = Array.isArray(said["findings"]) ? said["findings"].slice(0, MOST_FINDINGS) : [];
  if (typeof page !== "string" || !/^\/report\/[\w-]+$/.test(page)) throw new TypeError("the report has no page");
  return {
    page,
    made: time(said["made"]),
    headline: line(said["headline"]),
    first: time(hours["first"]),
    last: time(hours["last"]),
    findings: findings.map(fields).map((one) => ({
      severity: one["severity"] === "bad" ? "bad" : "warning",
      text: line(one["text"]),
      action: line(one["action"]),
    })),
  };
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** A time, to the minute. */
function time(value: unknown): string {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d)(:\d\d)?/.exec(line(value));
  return found ? `${found[1]} ${found[2]}${found[3] ?? ":00"} UTC` : "";
}

function line(value: unknown): string {
  if (typeof value !== "string") return "";
  return value.length > MOST_LETTERS ? `${value.slice(0, MOST_LETTERS)}…` : value;
}
