// Wires the modules to the page. Everything works by delegation from the
// document, so that parts of the page can be exchanged at any time.

import { start as startActs } from "./act.js";
import { start as startKeys } from "./keys.js";
import { start as startLive } from "./live.js";
import { start as startMany } from "./many.js";
import { start as startTimes } from "./times.js";

startTimes();
startActs();
startMany();
startKeys();
startLive();
