/** How `play` prints its pods. Apart, so that the command line needs nothing else of play. */
export const playOutputs = ["table", "wide", "json", "yaml", "name"] as const;
export type PlayOutput = (typeof playOutputs)[number];
