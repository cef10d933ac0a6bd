# The image of deploy/install and deploy/chart: the program with the built-in charts. Jobs of backups and restores also run it.
#   make build && docker build -f deploy/operator.Dockerfile -t tillerman:0.1.0 .
FROM gcr.io/distroless/static-debian12
COPY target/tillerman /usr/local/bin/tillerman
COPY charts /charts
USER 65532
ENTRYPOINT ["/usr/local/bin/tillerman"]
