// Metrics of PHP-FPM for Prometheus, by Telegraf's own plugins: the status of the pool that PHP_FPM_SCRAPE_URI names
// (unix:///SOCKET;/PATH or tcp://HOST:PORT/PATH), at PHP_FPM_WEB_LISTEN_ADDRESS, as hipages/php-fpm_exporter takes them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	_ "github.com/influxdata/telegraf/plugins/inputs/phpfpm"
	_ "github.com/influxdata/telegraf/plugins/outputs/prometheus_client"
)

// poolAddress is the address of a pool as Telegraf writes it.
func poolAddress(uri string) string {
	if socket, found := strings.CutPrefix(uri, "unix://"); found {
		path, status, _ := strings.Cut(socket, ";")
		return path + ":" + strings.TrimPrefix(status, "/")
	}
	return strings.Replace(uri, "tcp://", "fcgi://", 1)
}

func main() {
	settings := fmt.Sprintf(`[agent]
interval = "1s"
flush_interval = "1s"
omit_hostname = true
[[inputs.phpfpm]]
urls = [%q]
[[outputs.prometheus_client]]
listen = %q
metric_version = 2
`, poolAddress(os.Getenv("PHP_FPM_SCRAPE_URI")), os.Getenv("PHP_FPM_WEB_LISTEN_ADDRESS"))
	all := config.NewConfig()
	if err := all.LoadConfigData([]byte(settings), "environment"); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := agent.NewAgent(all).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
