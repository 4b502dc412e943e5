/**
 * Loaded by `--import`: at SIGUSR2 every thread of the pool blocks in the kernel, as those do that touch a
 * mount whose server is gone: in open() of a FIFO without a writer, DOCKERSHIM_TEST_FIFO.
 */
import { open } from "node:fs";

const threads = 4;
process.on("SIGUSR2", () => {
  for (let count = 0; count < threads; count += 1) {
    open(process.env["DOCKERSHIM_TEST_FIFO"] ?? "", "r", () => undefined);
  }
  process.stderr.write("threads blocked\n");
});
