// Requests to the management agents of the mesh: AMQP over a WebSocket to the listener that served the page.
import rhea from "rhea";
import type { Connection, EventContext, Receiver, Sender } from "rhea";
import type { Row, Value } from "../model/values.ts";

export const TIMEOUT_MS = 3000;

const NODE = { type: "org.amqp.management", name: "self" };

export interface Login {
  /** Of `kubectl waymesh console`, whose proxy accepts no other WebSocket. */
  readonly key?: string;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
}

export interface Query {
  readonly type: string;
  readonly attributes: readonly string[];
  readonly where?: string;
  readonly orderBy?: string;
  readonly count?: number;
}

/** A request that the agent refused, or that nobody answered (status 0). */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, description: string) {
    super(description);
    this.status = status;
  }
}

/** The router accepts no client without a login, or not with this one. */
export class LoginNeeded extends Error {}

type Properties = Record<string, string | number | undefined>;
interface Pending {
  done(status: number, description: string, body: unknown): void;
  failed(error: Error): void;
}

/** One connection to a router, through which the agents of all routers of the mesh are asked. */
export class Management {
  onLost: (reason: string) => void = () => undefined;
  #connection: Connection;
  #replies: Receiver;
  #senders = new Map<string, Promise<Sender>>();
  #pending = new Map<string, Pending>();
  #next = 1;

  private constructor(connection: Connection, replies: Receiver) {
    this.#connection = connection;
    this.#replies = replies;
    connection.on("message", (context: EventContext) => this.#reply(context));
    connection.on("disconnected", () => this.#lost("the connection is lost"));
    connection.on("connection_close", () => this.#lost(reasonOf(connection.error) || "the router closed the connection"));
  }

  /** Raises LoginNeeded or Error. */
  static async open(url: string, login: Login): Promise<Management> {
    const connect = rhea.create_container({ id: `console-${crypto.randomUUID()}` });
    const socket = connect.websocket_connect(WebSocket as never);
    // Without a user, the mechanisms ANONYMOUS and, with the certificate that the browser has shown, EXTERNAL.
    const strange = { sasl_mechanisms: withoutUser() };
    const known = login.token ? { sasl_mechanisms: withToken(login.token, login.user ?? "") } : { username: login.user, password: login.password };
    const protocols = login.key ? ["amqp", `waymesh.${login.key}`] : ["amqp"];
    const who = login.user || login.token ? known : strange;
    return await new Promise((resolve, reject) => {
      const options = { connection_details: socket(url, protocols as never, undefined as never), reconnect: false, idle_time_out: 20000 };
      const given = Object.fromEntries(Object.entries(who).filter(([, value]) => value));
      const connection = connect.connect({ ...options, ...given, hostname: location.hostname } as never);
      const failed = (error: Error): void => {
        clearTimeout(timer);
        reject(error);
      };
      const timer = setTimeout(() => {
        connection.close();
        failed(new Error("the router does not answer"));
      }, TIMEOUT_MS * 3);
      connection.on("connection_open", () => {
        connection.open_receiver({ source: { dynamic: true, address: "" }, credit_window: 200, autosettle: true });
      });
      connection.on("receiver_open", (context: EventContext) => {
        clearTimeout(timer);
        if (context.receiver) resolve(new Management(connection, context.receiver));
      });
      connection.on("connection_error", (context: EventContext) => failed(refusal(context.connection.error ?? context.error)));
      connection.on("error", (error: Error) => failed(refusal(error)));
      connection.on("disconnected", (context: EventContext) => failed(lostBeforeOpen(context)));
    });
  }

  close(): void {
    this.#connection.close();
  }

  /** The rows of a type at a router. Raises Refused. */
  async query(router: string, query: Query): Promise<Row[]> {
    const { type, attributes, where, orderBy, count } = query;
    const body = await this.request(router, "QUERY", { entityType: type, where, orderBy, count }, { attributeNames: [...attributes] });
    return rowsOf(body);
  }

  /** The body of the reply. `router`: its id, "" for the one to which the page is connected. Raises Refused. */
  async request(router: string, operation: string, properties: Properties = {}, body: unknown = {}): Promise<unknown> {
    const address = router ? `_topo/0/${router}/$management` : "$management";
    const id = String(this.#next++);
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => pending.failed(new Refused(0, "no answer")), TIMEOUT_MS);
      const ended = (): void => {
        clearTimeout(timer);
        this.#pending.delete(id);
      };
      const pending: Pending = {
        done: (status, description, found) => {
          ended();
          if (status >= 200 && status < 300) resolve(found);
          else reject(new Refused(status, description));
        },
        failed: (error) => {
          ended();
          reject(error);
        },
      };
      this.#pending.set(id, pending);
      this.#send(address, id, operation, properties, body).catch((error: Error) => pending.failed(error));
    });
  }

  async #send(address: string, id: string, operation: string, properties: Properties, body: unknown): Promise<void> {
    const sender = await this.#sender(address);
    const given = Object.entries(properties).filter(([, value]) => value !== undefined && value !== "");
    sender.send({
      to: address,
      reply_to: this.#replies.source.address,
      correlation_id: id,
      application_properties: { operation, ...(properties["type"] ? {} : NODE), ...Object.fromEntries(given) },
      body,
    });
  }

  #sender(address: string): Promise<Sender> {
    const known = this.#senders.get(address);
    if (known) return known;
    const made = new Promise<Sender>((resolve, reject) => {
      const sender = this.#connection.open_sender(address);
      const failed = (): void => {
        this.#senders.delete(address);
        reject(new Refused(403, reasonOf(sender.error) || "the router refuses requests"));
      };
      sender.on("sendable", () => resolve(sender));
      sender.on("sender_error", failed);
      sender.on("sender_close", failed);
      const undelivered = (): void => this.#undelivered(sender);
      for (const outcome of ["released", "rejected", "modified"]) sender.on(outcome, undelivered);
      setTimeout(() => reject(new Refused(0, "no answer")), TIMEOUT_MS);
    });
    this.#senders.set(address, made);
    made.catch(() => this.#senders.delete(address));
    return made;
  }

  /** No path leads to the agent: the next request tries a new link. */
  #undelivered(sender: Sender): void {
    for (const [address, made] of this.#senders) {
      void made.then((one) => {
        if (one === sender) this.#senders.delete(address);
      });
    }
    sender.close();
  }

  #reply(context: EventContext): void {
    const message = context.message;
    const pending = this.#pending.get(String(message?.correlation_id));
    const properties = message?.application_properties ?? {};
    pending?.done(Number(properties["statusCode"]), String(properties["statusDescription"] ?? ""), message?.body);
  }

  #lost(reason: string): void {
    const open = [...this.#pending.values()];
    this.#pending.clear();
    for (const pending of open) pending.failed(new Refused(0, reason));
    this.onLost(reason);
  }
}

function withoutUser(): unknown {
  const mechanisms = rhea.sasl.client_mechanisms();
  mechanisms.enable_anonymous("anonymous");
  if (location.protocol === "https:") mechanisms.enable_external();
  return mechanisms;
}

/** The user of a token is in the token: the router refuses another name. rhea demands one, so it is taken out again. */
function withToken(token: string, user: string): unknown {
  const mechanisms = rhea.sasl.client_mechanisms() as unknown as { enable_xoauth2(user: string, token: string): void; XOAUTH2: () => object };
  mechanisms.enable_xoauth2(user || "token", token);
  const made = mechanisms.XOAUTH2;
  mechanisms.XOAUTH2 = () => Object.assign(made(), { username: user });
  return mechanisms;
}

function reasonOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "";
  const { description, condition, message } = error as Record<string, unknown>;
  return String(description ?? message ?? condition ?? "");
}

function refusal(error: unknown): Error {
  const condition = String((error as { condition?: unknown } | null)?.condition ?? "");
  const reason = reasonOf(error);
  const about = `${condition} ${reason}`;
  return /unauthorized|authenticat|mechanism|sasl/i.test(about) ? new LoginNeeded(reason) : new Error(reason || "refused");
}

function lostBeforeOpen(context: EventContext): Error {
  const reason = reasonOf(context.error);
  return /authenticat|mechanism|sasl|protocol/i.test(reason) ? new LoginNeeded(reason) : new Error(reason || "no connection");
}

/** The rows of a reply to QUERY. */
export function rowsOf(body: unknown): Row[] {
  const { attributeNames, results } = body as { attributeNames: string[]; results: Value[][] };
  return results.map((values) => Object.fromEntries(attributeNames.map((name, index) => [name, plain(values[index])])));
}

/** A value as rhea decodes it: large integers arrive as bytes, times as dates. */
function plain(value: unknown): Value {
  if (value === undefined || value === null) return null;
  if (value instanceof Date) return value.getTime() / 1000;
  if (value instanceof Uint8Array) return large(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  return value as Value;
}

function large(value: Uint8Array): Value {
  return value.length === 8 ? Number(new DataView(value.buffer, value.byteOffset, 8).getBigUint64(0)) : `${value.length} bytes`;
}
