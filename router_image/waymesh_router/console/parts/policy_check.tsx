// A form that asks routers whether their policy allows a connection and a link. The fields are in the address, so that a
// question can be sent to a colleague, and a row of connections can lead here.
import { useContext, useState } from "preact/hooks";
import { Mesh } from "../amqp/live.ts";
import { agentOf } from "../amqp/session.ts";
import { bodyOf, FIELDS, verdictOf, type Question, type Verdict } from "../model/check.ts";
import { outcome } from "./confirm.tsx";
import type { PageProps } from "./console.tsx";

type Answers = ReadonlyMap<string, Verdict | string>;

export function PolicyCheck({ place, go }: Pick<PageProps, "place" | "go">) {
  const session = useContext(Mesh);
  const [answers, setAnswers] = useState<Answers>(new Map());
  const [busy, setBusy] = useState(false);
  const given: Question = Object.fromEntries(FIELDS.map((name) => [name, place.given[name] ?? ""]));
  const scope = place.given["router"] ?? "";
  const routers = scope ? [scope] : session.routers.filter((router) => !session.gone.has(router));
  const ask = async (): Promise<void> => {
    const { state } = session;
    if (state.kind !== "open" || busy) return;
    setBusy(true);
    const found = await Promise.all(routers.map(async (router): Promise<[string, Verdict | string]> => {
      try {
        const body = await state.management.request(agentOf(state, router), "CHECK-POLICY", {}, bodyOf(given));
        return [router, verdictOf(body)];
      } catch (error) {
        return [router, outcome(error)];
      }
    }));
    setAnswers(new Map(found));
    setBusy(false);
  };
  const set = (name: string, value: string): void => {
    setAnswers(new Map());
    go({ [name]: value });
  };
  const text = (name: (typeof FIELDS)[number], title: string, hint: string) => (
    <label>
      {title}
      <input name={name} value={given[name]} autocomplete="off" onInput={(event) => set(name, event.currentTarget.value)} />
      <span class="hint">{hint}</span>
    </label>
  );
  return (
    <>
      <h2>Would it be allowed?</h2>
      <form class="form" aria-label="Policy check" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        {text("user", "User", "As the client logs in; empty: anonymous")}
        {text("host", "Host", "Numeric address of the client's machine")}
        {text("hostname", "Vhost", "Host name in the client's open, or the policyVhost of the listener if it begins with $")}
        {text("tokenGroups", "Groups in the token", "Separated by commas; empty for other logins")}
        {text("address", "Address", "Of the link; empty for an anonymous sender")}
        <label>
          Direction
          <select name="direction" value={given.direction || "in"} onChange={(event) => set("direction", event.currentTarget.value)}>
            <option value="in">in: the client receives</option>
            <option value="out">out: the client sends</option>
          </select>
        </label>
        <p class="actions"><button disabled={busy || !given.host}>Check</button></p>
      </form>
      <div role="status" aria-label="Answers">{[...answers].map(([router, answer]) => <AnswerOf router={router} answer={answer} />)}</div>
    </>
  );
}

function AnswerOf({ router, answer }: { router: string; answer: Verdict | string }) {
  if (typeof answer === "string") return <p>{router}: {answer}</p>;
  return (
    <div>
      <p>{router}: <strong class={answer.allowed ? undefined : "bad"}>{answer.allowed ? "allowed" : "denied"}</strong></p>
      <ul>{answer.reasons.map((reason) => <li>{reason}</li>)}</ul>
    </div>
  );
}
