// The report: one scene that comes with the page.
"use strict";
stageOf()?.showScene(JSON.parse(document.getElementById("scene").textContent));
