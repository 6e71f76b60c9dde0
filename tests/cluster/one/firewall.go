package main

import (
	"context"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const retryAfter = 200 * time.Millisecond

// firewall is the part of kube-router that enforces NetworkPolicies; its own
// command would bring routing and load balancing, which nobody uses here.
func firewall() *cobra.Command {
	config := options.NewKubeRouterConfig()
	command := &cobra.Command{
		Use: "kube-router",
		RunE: func(command *cobra.Command, _ []string) error {
			return enforce(command.Context(), config)
		},
	}
	config.AddFlags(command.Flags())
	return command
}

// enforce keeps the node's iptables and ipsets as the NetworkPolicies say.
func enforce(ctx context.Context, config *options.KubeRouterConfig) error {
	access, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	var controller *netpol.NetworkPolicyController
	for controller == nil { // the kubelet has to make the Node first
		controller, err = netpol.NewNetworkPolicyController(
			client, config, pods, policies, namespaces, &sync.Mutex{}, tables, sets)
		if err != nil {
			klog.Info(err)
			time.Sleep(retryAfter)
		}
	}
	pods.AddEventHandler(controller.PodEventHandler)
	namespaces.AddEventHandler(controller.NamespaceEventHandler)
	policies.AddEventHandler(controller.NetworkPolicyEventHandler)

	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // its health is not served
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}
