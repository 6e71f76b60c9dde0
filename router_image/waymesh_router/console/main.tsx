import { render } from "preact";
import { Session } from "./amqp/session.ts";
import { Console } from "./parts/console.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";

const session = new Session();
const place = document.getElementById("console");
if (place) render(<Console session={session} />, place);
session.start();
