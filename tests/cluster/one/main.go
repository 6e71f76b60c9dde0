// The components of a Kubernetes cluster as one program: it is what its name
// says (through a link), or what its first argument says.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	signals "k8s.io/apiserver/pkg/server"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metrics "sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

// What CoreDNS adds to the flags that all of a program share. kube-proxy adopts
// every shared flag and has a "version" of its own: these must be gone by then.
const dnsFlags = " conf plugins pidfile version quiet p dns.port "

var components = map[string]func(){
	"etcd":    func() { etcdmain.Main(os.Args) },
	"coredns": dns,
	"kubectl": client,
	"kube-apiserver": func() {
		server(apiserver.NewAPIServerCommand())
	},
	"kube-controller-manager": func() {
		server(controllers.NewControllerManagerCommand())
	},
	"kube-scheduler": func() {
		server(scheduler.NewSchedulerCommand())
	},
	"kubelet": func() {
		server(kubelet.NewKubeletCommand(context.Background()))
	},
	"kube-router": func() {
		server(firewall())
	},
	"metrics-server": func() {
		server(metrics.NewMetricsServerCommand(signals.SetupSignalHandler()))
	},
	"kube-proxy": func() {
		dropFlags(dnsFlags)
		server(proxy.NewProxyCommand())
	},
}

func server(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func client() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err)
	}
}

func dns() {
	// The order in which plugins see a query; those not imported must not be named.
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes"}
	coremain.Run()
}

// dropFlags makes the program's flags anew, without those named.
func dropFlags(names string) {
	left := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(names, " "+f.Name+" ") {
			left.Var(f.Value, f.Name, f.Usage)
		}
	})
	flag.CommandLine = left
}

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	if run := components[name]; run != nil {
		run()
		return
	}
	names := make([]string, 0, len(components))
	for known := range components {
		names = append(names, known)
	}
	sort.Strings(names)
	fmt.Fprintln(os.Stderr, "no such component; there are:", strings.Join(names, " "))
	os.Exit(2)
}
