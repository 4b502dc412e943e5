/** Images for the tests, from the distribution's static busybox. */
import { busyboxLayer } from "../../scripts/setup/demo-image.mjs";
import { findBusybox } from "../../scripts/setup/busybox.mjs";
import { cacheDirectory } from "../../scripts/setup/paths.mjs";
import {
  type ArchiveEntry,
  buildImageArchive,
  type ImageConfig,
} from "../../src/shim/pause/image-archive.js";

export interface TestImageOptions {
  /** Name with tag. */
  readonly reference: string;
  /** Images with different markers have different ids. */
  readonly marker: string;
  readonly config?: ImageConfig;
  /** In the place of busybox and its files, the lowest first; whiteouts as in every tar of a layer. */
  readonly layers?: readonly (readonly ArchiveEntry[])[];
  /** A further layer, above busybox. */
  readonly above?: readonly ArchiveEntry[];
}

/** Further users of the image, for tests of groups. */
const passwd = [
  "root:x:0:0:root:/root:/bin/sh",
  "nobody:x:65534:65534:nobody:/nonexistent:/bin/false",
  "tester:x:1000:1000:tester:/tmp:/bin/sh",
  "",
].join("\n");
const group = ["root:x:0:", "tester:x:1000:", "extra:x:50000:tester", "nogroup:x:65534:", ""].join("\n");

/** A busybox image as the archive that `POST /images/load` takes. */
export async function testImageArchive({
  reference,
  marker,
  config = {},
  layers,
  above = [],
}: TestImageOptions): Promise<Buffer> {
  const { content, applets, architecture } = await findBusybox({
    cacheDirectory,
    // Where the distribution has it and it is not at hand, `npm test` has fetched it before.
    allowDownload: false,
    log: () => undefined,
  });
  const text = (path: string, lines: string): ArchiveEntry => ({
    path,
    type: "file",
    mode: 0o644,
    content: Buffer.from(lines),
  });
  return buildImageArchive({
    reference,
    architecture,
    config: {
      Cmd: ["sh"],
      Env: ["PATH=/bin", "FROM_IMAGE=yes"],
      Labels: { "dockershim.test/marker": marker },
      WorkingDir: "/",
      ...config,
    },
    layers: layers ?? [
      busyboxLayer({ content, applets }),
      [text("etc/passwd", passwd), text("etc/group", group), text("marker", marker)],
      ...(above.length === 0 ? [] : [above]),
    ],
  });
}
