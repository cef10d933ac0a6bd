#!/usr/bin/env python3
"""Does harm to a MySQLCluster on a node while four clients write; each acknowledged row has to be on every member afterwards.

KUBECONFIG names the cluster of the node, whose operator serves MySQLCluster (tests/node/mysql-operator.sh)."""
import base64
import time

import pymysql

from harm import CLASS, Chaos, arguments, main

RESOURCE = "mysqlclusters.databases.tillerman.dev"


class MySql(Chaos):
    programs = ("mariadbd", "mysqld")
    selector = "app.kubernetes.io/instance=c"
    mebibytes = 1536

    def __init__(self, options):
        super().__init__(options)
        self.connections = {}
        primary, replica = self.primary, self.replica
        self.kinds = {
            "kill-primary": lambda: self.kill_pod(primary()),
            "delete-primary": lambda: self.k("delete", "pod", primary(), "--wait=false"),
            "kill-replica": lambda: self.kill_pod(replica()),
            "kill-database": lambda: self.signal(primary(), "KILL"),
            "hang-primary": lambda: self.signal(primary(), "STOP"),
            "hang-replica": lambda: self.signal(replica(), "STOP"),
            "hang-all": lambda: [self.signal(pod, "STOP") for pod in self.pods()],
            "hang-agent": lambda: self.signal(primary(), "STOP", ("tillerman-agent",)),
            "lose-volume": lambda: self.lose_volume(replica()),
            "kill-operator-and-primary": lambda: (self.kill_operator(), self.kill_pod(primary())),
            "switch-over": self.switch_over,
            "kill-all": lambda: [self.kill_pod(pod) for pod in self.pods()],
            "full-volume": lambda: self.volumes.fill(f"data-{primary()}", 15),
            "slow-volume": lambda: self.volumes.stop(f"data-{primary()}", 15),
        }
        self.seconds = ["kill-primary", "delete-primary", "kill-replica", "kill-database", "hang-primary", "hang-replica", "lose-volume"]

    def cluster(self):
        return self.get(RESOURCE, "c")

    def status(self):
        return self.cluster().get("status", {})

    def primary(self):
        for _ in range(60):
            if self.status().get("primary"):
                return self.status()["primary"]
            time.sleep(1)
        return "c-0"

    def replica(self):
        primary = self.primary()
        return self.random.choice([f"c-{k}" for k in range(self.options.members) if f"c-{k}" != primary])

    def switch_over(self):
        ordinal = self.replica().split("-")[1]
        self.k("annotate", "--overwrite", RESOURCE, "c", f"tillerman.dev/switch-over={ordinal}@{time.time()}")

    def create(self):
        members, image = self.options.members, "localhost/mariadb:10.11.19"
        self.k("apply", "-f", "-", text=f"""
apiVersion: databases.tillerman.dev/v1alpha1
kind: MySQLCluster
metadata: {{name: c}}
spec: {{replicas: {members}, image: "{image}", agentImage: localhost/tillerman-agent:test, storage: {{size: 1Gi, className: {CLASS}, onDelete: Delete}}}}
""")

    def delete(self):
        self.k("delete", RESOURCE, "c", "--wait=true", seconds=180)

    def is_ready(self):
        cluster = self.cluster()
        status = cluster.get("status", {})
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
        current = status.get("observedGeneration") == cluster.get("metadata", {}).get("generation")
        safe = status.get("safeToFailOver") or self.options.members == 1
        return current and ready and status.get("readyMembers") == self.options.members and bool(safe)

    def connect(self, host):
        return pymysql.connect(
            host=host, user="root", password=self.password, connect_timeout=2, read_timeout=5, write_timeout=5, autocommit=True)

    def prepare(self):
        self.address = self.get("service", "c-primary")["spec"]["clusterIP"]
        self.password = base64.b64decode(self.get("secret", "c-root")["data"]["password"]).decode()
        connection = self.connect(self.address)
        connection.cursor().execute("CREATE DATABASE IF NOT EXISTS x")
        connection.cursor().execute("CREATE TABLE IF NOT EXISTS x.w (id BIGINT PRIMARY KEY, who INT)")
        connection.close()

    def write(self, client, number):
        key = client * 10_000_000 + number
        connection = self.connections.pop(client, None) or self.connect(self.address)
        # One that fails is not used again.
        connection.cursor().execute("INSERT INTO x.w VALUES (%s, %s)", (key, client))
        self.connections[client] = connection
        return key

    def keys(self, pod):
        connection = self.connect(self.pods()[pod]["status"]["podIP"])
        cursor = connection.cursor()
        cursor.execute("SELECT id FROM x.w")
        return {row[0] for row in cursor.fetchall()}


if __name__ == "__main__":
    main(MySql(arguments(__doc__, "mysql-chaos", "mysql-operator-system")))
