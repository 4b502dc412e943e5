# The program in a container that has its engine's host in reach: docs/run/docker-desktop.md.
#
#   docker build -t dockershim .
#
# BASE is an image of Alpine or Debian, with or without Node.js. What it lacks is installed from the distribution. Alpine's Node.js
# makes the smallest image. Without a registry: npm run image.
ARG BASE=alpine:3.22

FROM ${BASE} AS base
COPY scripts/image/install-programs /tmp/
RUN sh /tmp/install-programs run && rm /tmp/install-programs

FROM base AS build
COPY . /src
WORKDIR /src
RUN sh scripts/image/install-programs build
RUN node scripts/build.mjs && sh scripts/image/copy-build /opt/dockershim

FROM base
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY --from=build /opt/dockershim /opt/dockershim
RUN mkdir -p /usr/local/bin && ln -s /opt/dockershim/bin/dockershim /usr/local/bin/dockershim
WORKDIR /
ENTRYPOINT ["/opt/dockershim/entrypoint"]
