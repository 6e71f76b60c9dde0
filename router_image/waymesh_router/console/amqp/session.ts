// The page's connection to the mesh: opened, watched, and opened again when it is lost.
import { Management, LoginNeeded, type Login } from "./management.ts";
import { reportOf, type Report } from "../model/report.ts";
import { text, type Row } from "../model/values.ts";

export type State =
  | { readonly kind: "connecting"; readonly reason: string }
  | { readonly kind: "login"; readonly reason: string }
  /** Nothing is tried any more. */
  | { readonly kind: "stopped"; readonly reason: string }
  | { readonly kind: "open"; readonly management: Management; readonly self: string };

/** How a request names a router: "" for the one to which the page is connected. */
export function agentOf(state: Extract<State, { kind: "open" }>, router: string): string {
  return router === state.self ? "" : router;
}

const RETRY_MS = 2000;
/** A router that is lost is to be seen within three seconds, of which its neighbours need some. */
const NODES_MS = 1000;

/** Name of the key in the storage of this tab, so that the page can be loaded again. It is worth nothing when the command
 * has ended. */
const KEY = "key";

async function keyFor(code: string): Promise<string> {
  try {
    const answer = await fetch("/code", { method: "POST", body: code });
    return answer.ok ? await answer.text() : "";
  } catch {
    return "";
  }
}

/** Tells `changed` of each state, and of the routers of the mesh: also of those that it saw before and that are gone. */
export class Session {
  state: State = { kind: "connecting", reason: "" };
  routers: readonly string[] = [];
  gone: ReadonlySet<string> = new Set();
  changed: () => void = () => undefined;
  /** The last report of the analytics job, or why there is none; null: not asked yet, or only the command can know. */
  report: Report | string | null = null;
  #login: Login = {};
  #key = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `code`: of the address that `kubectl waymesh console` printed; the page gets a key for it, once. */
  async start(code = ""): Promise<void> {
    const kept = sessionStorage.getItem(KEY) ?? "";
    if (code || kept) this.#key = code ? await keyFor(code) : kept;
    if (code && !this.#key) {
      this.#become({ kind: "stopped", reason: "The code of this address is unknown, or was used before: start the command again." });
      return;
    }
    if (this.#key) sessionStorage.setItem(KEY, this.#key);
    void this.readReport();
    await this.#connect();
  }

  /** The password is kept in memory only, for the time that the page is open. */
  logIn(login: Login): void {
    this.#login = login;
    void this.#connect();
  }

  get loggedIn(): boolean {
    return Boolean(this.#login.user || this.#login.token);
  }

  /** Whether there may be a report: only `kubectl waymesh console` reads it, a router does not. */
  get hasReports(): boolean {
    return Boolean(this.#key);
  }

  async readReport(): Promise<void> {
    if (!this.#key) return;
    try {
      const answer = await fetch("/report", { method: "POST", headers: { Authorization: `Bearer ${this.#key}` } });
      if (!answer.ok) throw new Error(await answer.text());
      this.report = reportOf(await answer.json());
    } catch (error) {
      this.report = error instanceof Error ? error.message : String(error);
    }
    this.changed();
  }

  /** Shows only routers that are in the mesh now. */
  forget(): void {
    this.routers = this.routers.filter((router) => !this.gone.has(router));
    this.gone = new Set();
    this.changed();
  }

  logOut(): void {
    this.#login = {};
    if (this.state.kind === "open") {
      this.state.management.onLost = () => undefined;
      this.state.management.close();
    }
    this.#become({ kind: "login", reason: "" });
  }

  async #connect(): Promise<void> {
    clearTimeout(this.#timer);
    this.#become({ kind: "connecting", reason: this.state.kind === "connecting" ? this.state.reason : "" });
    try {
      const url = location.origin.replace(/^http/, "ws");
      const management = await Management.open(url, { ...this.#login, key: this.#key });
      management.onLost = (reason) => this.#again(reason);
      const [row] = await management.query("", { type: "org.apache.qpid.dispatch.router", attributes: ["id"] });
      this.#become({ kind: "open", management, self: text(row, "id") });
      void this.#watch(management);
    } catch (error) {
      if (error instanceof LoginNeeded) this.#become({ kind: "login", reason: this.#login.user || this.#login.token ? "The router did not accept this login." : "" });
      else this.#again(error instanceof Error ? error.message : String(error));
    }
  }

  #again(reason: string): void {
    clearTimeout(this.#timer);
    this.#become({ kind: "connecting", reason });
    this.#timer = setTimeout(() => void this.#connect(), RETRY_MS);
  }

  #become(state: State): void {
    this.state = state;
    this.changed();
  }

  /** Which routers there are, while the connection is this one. */
  async #watch(management: Management): Promise<void> {
    while (this.state.kind === "open" && this.state.management === management) {
      try {
        const rows = await management.query("", { type: "org.apache.qpid.dispatch.router.node", attributes: ["id"] });
        this.#saw(this.state.self, rows);
      } catch {
        // The next turn asks again; a lost connection ends the loop.
      }
      await new Promise((resolve) => setTimeout(resolve, NODES_MS));
    }
  }

  #saw(self: string, rows: readonly Row[]): void {
    const present = new Set([self, ...rows.map((row) => text(row, "id"))]);
    const routers = [...new Set([...this.routers, ...present])].sort();
    const gone = new Set(routers.filter((router) => !present.has(router)));
    if (routers.join("\n") === this.routers.join("\n") && [...gone].join("\n") === [...this.gone].join("\n")) return;
    this.routers = routers;
    this.gone = gone;
    this.changed();
  }
}
