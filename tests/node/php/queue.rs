//! Workers that follow a queue in Redis: the autoscaler of Kubernetes asks a server of external metrics for its length.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::services::serve;
use super::{FPM, Stage};
use crate::harness::{eventually_within, kubectl};

/// Takes jobs one by one. A job is in a list of the worker until it is done, and SIGTERM ends the worker after its job.
const WORKS: &str = r"<?php
$stop = false;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$stop) { $stop = true; });
$redis = new Redis();
$redis->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'));
$own = 'taken-by-'.gethostname();
while (!$stop) {
    $job = $redis->brpoplpush('jobs', $own, 1);
    if (!is_string($job)) continue;
    usleep(800000);
    $redis->multi()->hIncrBy('done', $job, 1)->hIncrBy('workers', gethostname(), 1)->lRem($own, $job, 1)->exec();
}";

const JOBS: usize = 200;
const API: &str = "v1beta1.external.metrics.k8s.io";

/// The API that a Service of a namespace serves, for as long as this lives: while an API is not answered, no namespace can be deleted.
struct Api;

impl Api {
    fn register(namespace: &str) -> Self {
        let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API}, "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"name": "metrics", "namespace": namespace, "port": 8443}}});
        kubectl(&["create", "-f", "-"], Some(&api.to_string())).unwrap();
        Self
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", "apiservice", API, "--ignore-not-found"], None);
    }
}

/// A connection to Redis.
struct Redis(BufReader<TcpStream>);

impl Redis {
    /// The texts of an answer, or the one.
    fn ask(&mut self, command: &str) -> Vec<String> {
        write!(self.0.get_mut(), "{command}\r\n").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "*" => (0..rest.parse().unwrap()).flat_map(|_| self.answer()).collect(),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                vec![String::from_utf8(text).unwrap().trim_end().to_owned()]
            }
            ":" | "+" => vec![rest.to_owned()],
            _ => panic!("{line}"),
        }
    }
}

#[test]
fn workers_follow_the_length_of_a_queue_and_no_job_is_lost_or_done_twice() {
    let stage = Stage::new("php-queue");
    let redis = json!({"containers": [{"name": "redis", "image": "localhost/redis:7.0",
        "command": ["redis-server", "--save", "", "--protected-mode", "no", "--dir", "/tmp"],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1}}]});
    let metrics = json!({"containers": [{"name": "metrics", "image": "localhost/external-metrics:test",
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1}}]});
    serve(&stage, &[("cache", redis, &[6379]), ("metrics", metrics, &[8443])]);
    let scale = json!({"metric": "redis_list_length", "selector": {"list": "jobs"}, "target": 10, "min": 1, "max": 4});
    stage.app("shop", &json!({"runtime": "fpm", "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": "<?php echo 'shop';", "work.php": WORKS},
        "extensions": ["redis"], "redis": {"host": "cache"}, "probes": {"periodSeconds": 1},
        "workers": [{"name": "jobs", "command": ["php", "/var/www/html/work.php"], "graceSeconds": 20, "scale": scale}]}));
    stage.is_ready("shop");
    let says = stage.place.get(&["phpapp", "shop"]).unwrap()["status"]["notScaled"].clone();
    assert!(says.as_str().unwrap_or_default().contains(API), "{says}");
    let replicas =
        |what: &str| stage.place.get(&["deployment", "shop-worker-jobs"]).map(|found| found[what]["replicas"].clone());
    assert_eq!(replicas("spec"), Ok(json!(1)));

    let _api = Api::register(stage.place.name());
    // The operator asks for the served kinds once a minute.
    eventually_within(120, "the autoscaler is there", || stage.place.get(&["hpa", "shop-worker-jobs"]));
    eventually_within(60, "it finds its metric", || {
        let status = stage.place.get(&["hpa", "shop-worker-jobs"])?["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_active = conditions.iter().any(|one| one["type"] == "ScalingActive" && one["status"] == "True");
        if is_active { Ok(()) } else { Err(status.to_string()) }
    });
    let address = format!("{}:6379", stage.address("cache"));
    let mut redis = Redis(BufReader::new(TcpStream::connect(address).unwrap()));
    let jobs: Vec<String> = (0..JOBS).map(|job| format!("job-{job}")).collect();
    assert_eq!(redis.ask(&format!("RPUSH jobs {}", jobs.join(" "))).len(), 1);
    eventually_within(120, "four workers run", || match stage.place.get(&["deployment", "shop-worker-jobs"])? {
        found if found["status"]["readyReplicas"] == 4 => Ok(()),
        found => Err(found["status"].to_string()),
    });
    eprintln!("four workers run, and {} jobs wait", redis.ask("LLEN jobs")[0]);
    stage.is_ready("shop");
    eventually_within(180, "all jobs are done", || match redis.ask("HLEN done")[0].parse::<usize>().unwrap() {
        JOBS => Ok(()),
        done => Err(format!("{done} are done")),
    });
    eventually_within(120, "one worker is left", || match (replicas("spec")?, replicas("status")?) {
        (spec, status) if spec == 1 && status == 1 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let done = redis.ask("HGETALL done");
    let names: BTreeSet<_> = done.iter().step_by(2).collect();
    assert_eq!(names, jobs.iter().collect());
    assert!(done.iter().skip(1).step_by(2).all(|times| times == "1"), "{done:?}");
    assert!(redis.ask("KEYS taken-by-*").is_empty(), "no job is half done");
    let shares = redis.ask("HGETALL workers");
    assert!(shares.len() / 2 > 1, "{shares:?}");
    eprintln!("jobs by worker: {shares:?}");
    // The operator left the number to the autoscaler: nothing drifted.
    let app: Value = stage.place.get(&["phpapp", "shop"]).unwrap();
    assert_eq!(app["status"]["notScaled"], Value::Null);
    assert!(!stage.place.kubectl(&["get", "events"]).unwrap().contains("Drift"));
    stage.had_its_rights();
}
