// The frame of all pages: navigation, router, search, login, and what is known of the connection.
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Session } from "../amqp/session.ts";
import { Mesh } from "../amqp/live.ts";
import { fragmentOf, placeOf, type Place } from "../model/place.ts";
import { PAGES } from "../pages/index.ts";
import { LoginForm } from "./login.tsx";

export interface PageProps {
  readonly place: Place;
  /** Goes to the same page with other values in the address. */
  readonly go: (changes: Readonly<Record<string, string>>) => void;
}

export interface PageEntry {
  readonly name: string;
  readonly title: string;
  readonly view: ComponentType<PageProps>;
  /** Whether it has no rows to search, and none of a router. */
  readonly whole?: boolean;
}

export function Console({ session }: { session: Session }) {
  const [, redraw] = useState(0);
  const [place, setPlace] = useState(() => placeOf(location.hash));
  // At once: the session may have news before the page is painted.
  useLayoutEffect(() => {
    session.changed = () => redraw((turn) => turn + 1);
    const moved = (): void => setPlace(placeOf(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, [session]);
  useEffect(() => {
    addEventListener("keydown", shortcut);
    return () => removeEventListener("keydown", shortcut);
  }, []);
  const page = PAGES.find((one) => one.name === place.page);
  useEffect(() => {
    document.title = `${page?.title ?? "Not found"} – Waymesh console`;
    // In a narrow window, the list of pages is wider than the window.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [page]);
  const go = (changes: Readonly<Record<string, string>>): void => {
    const given = { ...place.given, ...changes };
    history.replaceState(null, "", fragmentOf(place.page, given));
    setPlace({ page: place.page, given: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "")) });
  };
  return (
    <Mesh.Provider value={session}>
      <a class="skip" href="#main" onClick={skip}>Skip to the page</a>
      <header>
        <strong>Waymesh</strong>
        <nav aria-label="Pages">
          {PAGES.map((one) => (
            <a href={fragmentOf(one.name, place.given["router"] ? { router: place.given["router"] } : {})}
              aria-current={one.name === place.page ? "page" : undefined}>{one.title}</a>
          ))}
        </nav>
        <Connected session={session} />
      </header>
      <Banner session={session} />
      <main id="main" tabIndex={-1}>
        {session.state.kind === "login" ? <LoginForm session={session} reason={session.state.reason} /> : null}
        {page && session.state.kind !== "login" && session.routers.length
          ? <><Tools session={session} page={page} place={place} go={go} /><page.view key={page.name} place={place} go={go} /></>
          : null}
        {page ? null : <p>There is no page {place.page}.</p>}
      </main>
    </Mesh.Provider>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function shortcut(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(target.tagName)) return;
  const search = document.querySelector<HTMLInputElement>("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
}

function Connected({ session }: { session: Session }) {
  const { state } = session;
  if (state.kind !== "open") return <span class="connected">not connected</span>;
  return (
    <span class="connected">router {state.self}{" "}
      {session.loggedIn ? <button onClick={() => session.logOut()}>Log out</button> : null}
    </span>
  );
}

function Banner({ session }: { session: Session }) {
  const { state } = session;
  const gone = [...session.gone];
  return (
    <div role="status">
      {state.kind === "connecting"
        ? <p class="banner bad">{state.reason ? `No connection: ${state.reason}. Trying again; the figures are old.` : "Connecting…"}</p>
        : null}
      {state.kind === "stopped" ? <p class="banner bad">{state.reason}</p> : null}
      {state.kind === "open" && gone.length
        ? <p class="banner bad">No longer in the mesh: {gone.join(", ")} <button onClick={() => session.forget()}>Forget</button></p>
        : null}
    </div>
  );
}

function Tools({ session, page, place, go }: PageProps & { session: Session; page: PageEntry }) {
  return (
    <div class="tools">
      <h1>{page.title}</h1>
      {page.whole ? null : <Scope session={session} place={place} go={go} />}
    </div>
  );
}

function Scope({ session, place, go }: PageProps & { session: Session }) {
  const scope = place.given["router"] ?? "";
  return (
    <>
      <label>Router{" "}
        <select value={scope} onChange={(event) => go({ router: event.currentTarget.value })}>
          <option value="">all</option>
          {session.routers.map((router) => <option value={router}>{router}</option>)}
        </select>
      </label>
      <label>Search{" "}
        <input type="search" value={place.given["search"] ?? ""} placeholder="press /"
          onInput={(event) => go({ search: event.currentTarget.value })} />
      </label>
    </>
  );
}
