// A table of rows: search, order, CSV, and what a click on a row shows.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Answer } from "../amqp/live.ts";
import { isOld } from "../amqp/live.ts";
import { csv, found, ordered, type Order } from "../model/rows.ts";
import { bytes, duration, perSecond, shown, type Row, type Value } from "../model/values.ts";
import type { PageProps } from "./console.tsx";

export type Kind = "text" | "long" | "number" | "rate" | "bytes" | "duration";

export interface Column {
  readonly name: string;
  readonly title: string;
  readonly kind?: Kind;
  /** What the title means. */
  readonly hint?: string;
  readonly cell?: (row: Row) => ComponentChildren;
}

const SHOWN = 200;

export function TableOf({ rows, columns, place, go, name, open, first }: Pick<PageProps, "place" | "go"> & {
  rows: readonly Row[];
  columns: readonly Column[];
  /** Of the CSV file, and read by screen readers. */
  name: string;
  /** What is shown below a row whose first cell was pressed. */
  open?: (row: Row) => ComponentChildren;
  /** The order if the address names none. */
  first?: Order;
}) {
  const [limit, setLimit] = useState(SHOWN);
  const sort = place.given["sort"] ?? "";
  const order: Order | null = sort ? { column: sort.replace(/^-/, ""), descending: sort.startsWith("-") } : (first ?? null);
  const names = columns.map((column) => column.name);
  const some = ordered(found(rows, names, place.given["search"] ?? ""), order);
  const chosen = place.given["row"] ?? "";
  return (
    <>
      <div class="above">
        <span>{some.length === rows.length ? `${rows.length} rows` : `${some.length} of ${rows.length} rows`}</span>
        <button onClick={() => save(`${name}.csv`, csv(some, columns))}>CSV</button>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={name}>
        <table>
          <thead><tr>{columns.map((column) => <Heading column={column} order={order} go={go} />)}</tr></thead>
          <tbody>
            {some.slice(0, limit).map((row) => {
              const key = rowKey(row);
              const wide = open && key === chosen;
              return [
                <tr key={key} class={wide ? "chosen" : undefined}>
                  {columns.map((column, index) => (
                    <td class={classOf(column)} title={shown(row[column.name])}>
                      {index === 0 && open
                        ? <button class="link" aria-expanded={Boolean(wide)} onClick={() => go({ row: wide ? "" : key })}>{cell(column, row) || "(none)"}</button>
                        : cell(column, row)}
                    </td>
                  ))}
                </tr>,
                <Below columns={columns} row={row} />,
                wide ? <tr class="detail"><td colSpan={columns.length}>{open(row)}</td></tr> : null,
              ];
            })}
          </tbody>
        </table>
      </div>
      {some.length > limit ? <button onClick={() => setLimit(limit + SHOWN)}>{`Show ${SHOWN} more of ${some.length}`}</button> : null}
      {rows.length ? null : <p class="empty">There are none.</p>}
    </>
  );
}

/** What identifies a row in the mesh. */
export function rowKey(row: Row): string {
  return `${shown(row["router"])}:${shown(row["identity"])}`;
}

function isNumber(column: Column): boolean {
  return !["text", "long"].includes(column.kind ?? "text");
}

function classOf(column: Column): string | undefined {
  return isNumber(column) ? "number" : column.kind;
}

function Heading({ column, order, go }: { column: Column; order: Order | null; go: PageProps["go"] }) {
  const mine = order?.column === column.name;
  const next = mine ? (order.descending ? column.name : `-${column.name}`) : isNumber(column) ? `-${column.name}` : column.name;
  return (
    <th scope="col" class={classOf(column)} title={column.hint}
      aria-sort={mine ? (order.descending ? "descending" : "ascending") : undefined}>
      <button class="link" onClick={() => go({ sort: next })}>{column.title}{mine ? (order.descending ? " ↓" : " ↑") : ""}</button>
    </th>
  );
}

/** The long cells of a row once more, in lines of their own: a narrow window shows these, where the others would be out of sight. */
function Below({ columns, row }: { columns: readonly Column[]; row: Row }) {
  const contents = columns.filter((column) => column.kind === "long").map((column) => cell(column, row)).filter(Boolean);
  return contents.length ? <tr class="detail below"><td colSpan={columns.length}>{contents.map((content) => <div>{content}</div>)}</td></tr> : null;
}

function cell(column: Column, row: Row): ComponentChildren {
  return column.cell ? column.cell(row) : formatted(column.kind ?? "text", row[column.name]);
}

export function formatted(kind: Kind, value: Value | undefined): string {
  if (kind === "rate") return perSecond(typeof value === "number" ? value : null);
  if (typeof value !== "number") return shown(value);
  if (kind === "bytes") return bytes(value);
  return kind === "duration" ? duration(value) : shown(value);
}

function save(name: string, content: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The rows of all routers with the router's id, and which routers gave none. */
export function rowsOfAll(answers: readonly Answer[], rowsOfOne: (answer: Answer) => readonly Row[]): Row[] {
  return answers.flatMap((answer) => rowsOfOne(answer).map((row) => ({ ...row, router: answer.router })));
}

/** Says which figures are old, and whose are missing. */
export function Freshness({ answers }: { answers: readonly Answer[] }) {
  const old = answers.filter(isOld);
  if (!old.length) return null;
  return (
    <ul class="old" role="status">
      {old.map((answer) => (
        <li>{answer.router}: {answer.error || "no answer"}{answer.now ? `; its figures are ${duration((performance.now() - answer.now.at) / 1000)} old` : ""}</li>
      ))}
    </ul>
  );
}

/** All attributes of a row, by name. */
export function Details({ row }: { row: Row }) {
  return (
    <dl>
      {Object.entries(row).filter(([name]) => !name.endsWith("/s")).map(([name, value]) => (
        <div><dt>{name}</dt><dd>{shown(value) || "–"}</dd></div>
      ))}
    </dl>
  );
}
