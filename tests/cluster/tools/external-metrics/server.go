// A server of the API external.metrics.k8s.io with one metric: redis_list_length, the length of the list that the label `list` names, in the
// Redis of the namespace. Like adapters that know no metric before somebody asks for one, it lists none in its discovery.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const version = "external.metrics.k8s.io/v1beta1"

var (
	listen = flag.String("listen", ":8443", "where to listen")
	redis  = flag.String("redis", "cache.NAMESPACE.svc.cluster.local:6379", "the Redis of a namespace")
	list   = regexp.MustCompile(`^list=([A-Za-z0-9._-]+)$`)
)

// length asks a Redis for the length of a list.
func length(address, list string) (int, error) {
	connection, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(connection, "LLEN %s\r\n", list); err != nil {
		return 0, err
	}
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return 0, err
	}
	number, found := strings.CutPrefix(strings.TrimSpace(answer), ":")
	if !found {
		return 0, fmt.Errorf("Redis answered %q", answer)
	}
	return strconv.Atoi(number)
}

func answer(w http.ResponseWriter, code int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err)
	}
}

func failure(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
}

func main() {
	flag.Parse()
	http.HandleFunc("GET /apis/"+version, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []any{}})
	})
	http.HandleFunc("GET /apis/"+version+"/namespaces/{namespace}/{metric}", func(w http.ResponseWriter, r *http.Request) {
		name := list.FindStringSubmatch(r.URL.Query().Get("labelSelector"))
		if r.PathValue("metric") != "redis_list_length" || name == nil {
			failure(w, 404, "the only metric is redis_list_length with the label list")
			return
		}
		count, err := length(strings.ReplaceAll(*redis, "NAMESPACE", r.PathValue("namespace")), name[1])
		if err != nil {
			failure(w, 503, err.Error())
			return
		}
		log.Printf("%s/%s has %d", r.PathValue("namespace"), name[1], count)
		item := map[string]any{"metricName": "redis_list_length", "metricLabels": map[string]string{"list": name[1]},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "value": strconv.Itoa(count)}
		answer(w, 200, map[string]any{"kind": "ExternalMetricValueList", "apiVersion": version, "metadata": map[string]any{}, "items": []any{item}})
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		log.Fatal(err)
	}
	own := tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
	server := http.Server{Addr: *listen, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}}, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
