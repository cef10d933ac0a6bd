// A volume driver for the test node: each volume is a file with XFS in a loop device, so that it can grow while it is in use, becomes
// really full, and can be copied. It speaks the container storage interface (CSI) with the kubelet and with the usual sidecars.
//
// Parameters of a class: `most` (bytes; a volume does not grow above it), `slow` (how long the controller takes to grow one, such as 5s)
// and `offline` (true: a volume grows only while no pod uses it).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	name = "volumes.test.tillerman.dev"
	// mkfs.xfs makes no smaller filesystem.
	least = 300 << 20
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	folder, endpoint, node string
	lock                   sync.Mutex
}

// record is what is kept about a snapshot.
type record struct {
	Source string
	Bytes  int64
	Taken  time.Time
}

func main() {
	d := &driver{}
	flag.StringVar(&d.folder, "folder", "", "the folder of the volumes")
	flag.StringVar(&d.node, "node", "", "the name of the node")
	plugins := flag.String("plugins", "/var/lib/kubelet", "the folder of the kubelet")
	flag.Parse()
	d.endpoint = filepath.Join(*plugins, "plugins", name, "csi.sock")
	must(os.MkdirAll(d.folder, 0o700))
	go serve(filepath.Join(*plugins, "plugins_registry", name+"-reg.sock"), func(server *grpc.Server) {
		registration.RegisterRegistrationServer(server, d)
	})
	serve(d.endpoint, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, d)
		csi.RegisterControllerServer(server, d)
		csi.RegisterNodeServer(server, d)
	})
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func serve(socket string, register func(*grpc.Server)) {
	must(os.MkdirAll(filepath.Dir(socket), 0o755))
	if err := os.Remove(socket); !os.IsNotExist(err) {
		must(err)
	}
	listener, err := net.Listen("unix", socket)
	must(err)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		answer, err := handle(ctx, request)
		if err != nil || !strings.HasSuffix(info.FullMethod, "Capabilities") && !strings.HasSuffix(info.FullMethod, "Probe") {
			log.Printf("%s %v: %v", info.FullMethod, request, err)
		}
		return answer, err
	}))
	register(server)
	must(server.Serve(listener))
}

func run(program string, arguments ...string) error {
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		return status.Errorf(codes.Internal, "%s %s: %v: %s", program, strings.Join(arguments, " "), err, output)
	}
	return nil
}

var safe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$`)

// path is the file of a volume or a snapshot.
func (d *driver) path(id, suffix string) (string, error) {
	if !safe.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "%q is not an identifier", id)
	}
	return filepath.Join(d.folder, id+suffix), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	return json.Unmarshal(text, into)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// --- the plugin ---------------------------------------------------------------

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: name, Endpoint: d.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, told *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", told.PluginRegistered, told.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

// --- the controller -----------------------------------------------------------

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}})
	}
	return answer, nil
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.path(r.Name, ".img")
	if err != nil {
		return nil, err
	}
	bytes := max(r.GetCapacityRange().GetRequiredBytes(), least)
	if !exists(image) {
		made := image + ".new"
		if snapshot := r.GetVolumeContentSource().GetSnapshot(); snapshot != nil {
			source, err := d.path(snapshot.SnapshotId, ".img")
			if err != nil {
				return nil, err
			}
			if !exists(source) {
				return nil, status.Errorf(codes.NotFound, "the snapshot %s does not exist", snapshot.SnapshotId)
			}
			if err := run("cp", "--reflink=auto", "--sparse=always", source, made); err != nil {
				return nil, err
			}
			if err := run("truncate", "--size", fmt.Sprintf(">%d", bytes), made); err != nil {
				return nil, err
			}
		} else {
			if err := run("truncate", "--size", strconv.FormatInt(bytes, 10), made); err != nil {
				return nil, err
			}
			if err := run("mkfs.xfs", "-q", "-f", made); err != nil {
				return nil, err
			}
		}
		parameters, err := d.path(r.Name, ".json")
		if err != nil {
			return nil, err
		}
		if err := writeJSON(parameters, r.Parameters); err != nil {
			return nil, err
		}
		if err := os.Rename(made, image); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.Name, CapacityBytes: bytes, ContentSource: r.VolumeContentSource}}, nil
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, d.remove(r.VolumeId)
}

func (d *driver) remove(id string) error {
	for _, suffix := range []string{".img", ".json"} {
		path, err := d.path(id, suffix)
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return status.Error(codes.Internal, err.Error())
		}
	}
	return nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}}, nil
}

func (d *driver) ControllerExpandVolume(ctx context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	image, err := d.path(r.VolumeId, ".img")
	if err != nil {
		return nil, err
	}
	about, err := d.path(r.VolumeId, ".json")
	if err != nil {
		return nil, err
	}
	parameters := map[string]string{}
	if err := readJSON(about, &parameters); err != nil {
		return nil, err
	}
	bytes := r.CapacityRange.RequiredBytes
	if most, err := strconv.ParseInt(parameters["most"], 10, 64); err == nil && bytes > most {
		return nil, status.Errorf(codes.OutOfRange, "a volume of this class has at most %d bytes", most)
	}
	if slow, err := time.ParseDuration(parameters["slow"]); err == nil {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, status.Error(codes.DeadlineExceeded, "it takes longer")
		}
	}
	if devices, _ := exec.Command("losetup", "--associated", image).Output(); parameters["offline"] == "true" && len(devices) > 0 {
		return nil, status.Error(codes.FailedPrecondition, "a volume of this class grows only while no pod uses it")
	}
	if err := run("truncate", "--size", fmt.Sprintf(">%d", bytes), image); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: bytes, NodeExpansionRequired: true}, nil
}

func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	image, err := d.path(r.SourceVolumeId, ".img")
	if err != nil {
		return nil, err
	}
	copied, err := d.path(r.Name, ".img")
	if err != nil {
		return nil, err
	}
	about, err := d.path(r.Name, ".json")
	if err != nil {
		return nil, err
	}
	kept := record{}
	if exists(copied) {
		if err := readJSON(about, &kept); err != nil {
			return nil, err
		}
		if kept.Source != r.SourceVolumeId {
			return nil, status.Errorf(codes.AlreadyExists, "%s is a snapshot of another volume", r.Name)
		}
	} else {
		// The copy of a filesystem that is frozen is of one moment.
		if mounted, err := mountOf(image); err == nil && mounted != "" {
			if err := run("fsfreeze", "--freeze", mounted); err != nil {
				return nil, err
			}
			defer run("fsfreeze", "--unfreeze", mounted)
		}
		if err := run("cp", "--reflink=auto", "--sparse=always", image, copied+".new"); err != nil {
			return nil, err
		}
		file, err := os.Stat(copied + ".new")
		if err != nil {
			return nil, err
		}
		kept = record{Source: r.SourceVolumeId, Bytes: file.Size(), Taken: time.Now()}
		if err := writeJSON(about, kept); err != nil {
			return nil, err
		}
		if err := os.Rename(copied+".new", copied); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: r.Name, SourceVolumeId: kept.Source, SizeBytes: kept.Bytes,
		CreationTime: timestamppb.New(kept.Taken), ReadyToUse: true}}, nil
}

func (d *driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	return &csi.DeleteSnapshotResponse{}, d.remove(r.SnapshotId)
}

// device is the loop device of an image; empty if it has none.
func device(image string) (string, error) {
	output, err := exec.Command("losetup", "--associated", image, "--noheadings", "--output", "NAME").Output()
	return strings.TrimSpace(strings.SplitN(string(output), "\n", 2)[0]), err
}

// mountOf is where an image is mounted first; empty if it is not.
func mountOf(image string) (string, error) {
	loop, err := device(image)
	if err != nil || loop == "" {
		return "", err
	}
	output, err := exec.Command("findmnt", "--noheadings", "--first-only", "--output", "TARGET", loop).Output()
	return strings.TrimSpace(string(output)), err
}

// --- the node -----------------------------------------------------------------

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}}})
	}
	return answer, nil
}

func isMounted(path string) bool { return exec.Command("mountpoint", "--quiet", path).Run() == nil }

func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	image, err := d.path(r.VolumeId, ".img")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.StagingTargetPath, 0o750); err != nil {
		return nil, err
	}
	if !isMounted(r.StagingTargetPath) {
		// A copy has the UUID of its original.
		if err := run("mount", "-t", "xfs", "-o", "loop,nouuid", image, r.StagingTargetPath); err != nil {
			return nil, err
		}
	}
	// A volume that is made of a smaller snapshot, or that grew while no pod used it.
	return &csi.NodeStageVolumeResponse{}, run("xfs_growfs", r.StagingTargetPath)
}

func unmount(path string) error {
	if isMounted(path) {
		if err := run("umount", path); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, unmount(r.StagingTargetPath)
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
		return nil, err
	}
	if isMounted(r.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := run("mount", "--bind", r.StagingTargetPath, r.TargetPath); err != nil {
		return nil, err
	}
	if r.Readonly {
		return &csi.NodePublishVolumeResponse{}, run("mount", "-o", "remount,bind,ro", r.TargetPath)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, unmount(r.TargetPath)
}

func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	image, err := d.path(r.VolumeId, ".img")
	if err != nil {
		return nil, err
	}
	loop, err := device(image)
	if err != nil || loop == "" {
		return nil, status.Errorf(codes.NotFound, "the volume is not on this node: %v", err)
	}
	if err := run("losetup", "--set-capacity", loop); err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, run("xfs_growfs", r.VolumePath)
}

func (d *driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	has := syscall.Statfs_t{}
	if err := syscall.Statfs(r.VolumePath, &has); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	size := has.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(has.Blocks) * size, Available: int64(has.Bavail) * size, Used: int64(has.Blocks-has.Bfree) * size},
		{Unit: csi.VolumeUsage_INODES, Total: int64(has.Files), Available: int64(has.Ffree), Used: int64(has.Files - has.Ffree)},
	}}, nil
}
