import { render } from "preact";
import { Session } from "./amqp/session.ts";
import { Console } from "./parts/console.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";

// The fragment is not sent to any server, but whoever looks at the address bar could read the code.
const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
if (code) history.replaceState(null, "", location.pathname);

const session = new Session();
const place = document.getElementById("console");
if (place) render(<Console session={session} />, place);
void session.start(code);
