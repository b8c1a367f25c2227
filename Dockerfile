# The image of a worker: a static binary and the certificates of authorities.
# "Containers" in docs/operations.md shows how to build and run it.

FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
WORKDIR /src
COPY . .
ARG VERSION
ARG COMMIT
ARG TARGETOS
ARG TARGETARCH
# The flags are those of the Makefile.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false \
    -ldflags="-s -w -X $(go list ./internal/version).version=$VERSION -X $(go list ./internal/version).commit=$COMMIT" \
    -o bin/handler ./handler

FROM scratch
ARG VERSION
ARG COMMIT
LABEL org.opencontainers.image.version=$VERSION org.opencontainers.image.revision=$COMMIT
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/bin/handler /handler
# Numbers, so that Kubernetes can check that the user is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# Exec forms: there is no shell.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 CMD ["/handler", "probe"]
ENTRYPOINT ["/handler", "worker", "--listen", ":8080"]
