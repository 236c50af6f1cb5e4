# Images of the service. Both run as the user tidemark (65532), and can run with a read-only root file system. BuildKit
# builds them, which Docker before 23 uses only with DOCKER_BUILDKIT=1.
#
#   DOCKER_BUILDKIT=1 docker build -t tidemark .                            # for a Redis that you run: TIDEMARK_REDIS
#   DOCKER_BUILDKIT=1 docker build -t tidemark:managed --target managed .   # with a redis-server; keep /var/lib/tidemark in a volume
#
# `make image` adds the version. scripts/check-image.sh runs the stages after the first without Docker.
ARG GO_VERSION=1.26
ARG DEBIAN=bookworm

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-${DEBIAN} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev COMMIT=unknown DATE=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH make build && deploy/image/rootfs.sh bin/tidemark /rootfs && mkdir /empty

FROM debian:${DEBIAN}-slim AS managed
ARG REDIS=redis-server
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates ${REDIS} && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 65532 tidemark && useradd --uid 65532 --gid 65532 --home-dir /var/lib/tidemark --shell /sbin/nologin tidemark \
    && install -d -m 700 -o 65532 -g 65532 /var/lib/tidemark
COPY --from=build /rootfs/usr/bin/tidemark /usr/bin/tidemark
USER 65532:65532
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
ENV TIDEMARK_LISTEN=0.0.0.0:8080 TIDEMARK_GRPC_LISTEN=0.0.0.0:50504 TIDEMARK_DATA_DIR=/var/lib/tidemark
EXPOSE 8080 50504
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/tidemark", "health", "--live"]
ENTRYPOINT ["/usr/bin/tidemark"]
CMD ["serve"]

FROM scratch AS service
COPY --from=build /rootfs/ /
COPY --from=build --chown=65532:65532 /empty /var/lib/tidemark
USER 65532:65532
WORKDIR /var/lib/tidemark
ENV TIDEMARK_LISTEN=0.0.0.0:8080 TIDEMARK_GRPC_LISTEN=0.0.0.0:50504
EXPOSE 8080 50504
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/tidemark", "health", "--live"]
ENTRYPOINT ["/usr/bin/tidemark"]
CMD ["serve"]
