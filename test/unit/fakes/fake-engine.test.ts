/** The fake engine is like the real one where the tests of the shim depend on it. */
import { describe } from "node:test";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { engineContract, makeContainer } from "../../support/engine-contract.js";

describe("FakeEngine, what it has in common with Docker's", () => {
  const engine = new FakeEngine();
  // Commands run until they are killed.
  engine.execs.script = () => ({});
  const at = { engine, run: "1", image: "dockershim.local/engine-test:1" };
  engine.images.add({ tags: [at.image] });
  engineContract({ ...at, facts: engine.facts, container: (overrides) => makeContainer(at, overrides) });
});
