// Asks for a user and a password, or a token: both only over TLS.
import { useState } from "preact/hooks";
import type { Session } from "../amqp/session.ts";

export function LoginForm({ session, reason }: { session: Session; reason: string }) {
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  const [kind, setKind] = useState("password");
  if (location.protocol !== "https:") {
    return (
      <section>
        <h1>Log in</h1>
        <p>This listener asks for a login, and the page came without TLS. Passwords and tokens are sent over TLS only: open the
          console by https, at a listener with an sslProfile.</p>
      </section>
    );
  }
  const submit = (event: Event): void => {
    event.preventDefault();
    session.logIn(kind === "token" ? { user, token: secret } : { user, password: secret });
  };
  return (
    <form class="login" onSubmit={submit}>
      <h1>Log in</h1>
      {reason ? <p role="alert" class="bad">{reason}</p> : null}
      <label>By
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="password">user and password</option>
          <option value="token">bearer token</option>
        </select>
      </label>
      <label>User<input value={user} autocomplete="username" required={kind === "password"} onInput={(event) => setUser(event.currentTarget.value)} /></label>
      <label>{kind === "token" ? "Token" : "Password"}
        <input type="password" value={secret} autocomplete="current-password" required onInput={(event) => setSecret(event.currentTarget.value)} />
      </label>
      <button>Log in</button>
    </form>
  );
}
