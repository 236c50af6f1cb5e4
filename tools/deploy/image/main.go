// Command image builds an image of the Dockerfile without Docker, as root: the stages after the stage "build", whose
// files it takes from a directory. It writes a file for `docker load`.
//
//	image -file Dockerfile -target service -build DIR [-base DIR] -output image.tar
//
// DIR has /rootfs and /empty, as the stage has them. base is the file system of the target's base image, unless that is
// scratch. It runs RUN in a chroot, and refuses instructions and options that the Dockerfile doesn't use.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	log.SetFlags(0)
	file := flag.String("file", "Dockerfile", "the Dockerfile")
	target := flag.String("target", "service", "the stage to build")
	build := flag.String("build", "", "directory with the files of the stage build")
	base := flag.String("base", "", "directory with the files of the base image, which becomes the image's")
	output := flag.String("output", "image.tar", "the image")
	flag.Parse()
	if err := run(*file, *target, *build, *base, *output); err != nil {
		log.Fatal(err)
	}
}

func run(file, target, build, base, output string) error {
	stage, err := find(file, target)
	if err != nil {
		return err
	}
	i := &image{build: build, root: base}
	if (stage.BaseName == "scratch") != (base == "") {
		return fmt.Errorf("the base of %s is %s: pass -base only for another than scratch", target, stage.BaseName)
	}
	if base == "" {
		if i.root, err = os.MkdirTemp("", "image"); err != nil {
			return err
		}
		defer os.RemoveAll(i.root)                      //nolint:errcheck // temporary
		if err := os.Chmod(i.root, 0o755); err != nil { //nolint:gosec // the root of the image
			return err
		}
	}
	for _, c := range stage.Commands {
		if err := i.apply(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
	}
	return i.write(output, target)
}

// find returns a stage of a Dockerfile.
func find(file, target string) (instructions.Stage, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return instructions.Stage{}, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return instructions.Stage{}, err
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return instructions.Stage{}, err
	}
	for _, s := range stages {
		if s.Name == target {
			return s, nil
		}
	}
	return instructions.Stage{}, fmt.Errorf("%s has no stage %s", file, target)
}

// image is an image while it is built.
type image struct {
	build, root string // directories
	arguments   []string
	config      v1.Config
}

func (i *image) apply(command instructions.Command) error {
	switch c := command.(type) {
	case *instructions.ArgCommand:
		for _, a := range c.Args {
			if a.Value != nil {
				i.arguments = append(i.arguments, a.Key+"="+*a.Value)
			}
		}
	case *instructions.RunCommand:
		return i.run(c.CmdLine)
	case *instructions.CopyCommand:
		return i.copy(c)
	case *instructions.UserCommand:
		i.config.User = c.User
	case *instructions.WorkdirCommand:
		i.config.WorkingDir = c.Path
	case *instructions.VolumeCommand:
		i.config.Volumes = set(c.Volumes)
	case *instructions.ExposeCommand:
		i.config.ExposedPorts = set(c.Ports)
	case *instructions.EnvCommand:
		for _, v := range c.Env {
			i.config.Env = append(i.config.Env, v.Key+"="+v.Value)
		}
	case *instructions.HealthCheckCommand:
		i.config.Healthcheck = &v1.HealthConfig{Test: c.Health.Test, Interval: c.Health.Interval, Timeout: c.Health.Timeout,
			StartPeriod: c.Health.StartPeriod, Retries: c.Health.Retries}
	case *instructions.EntrypointCommand:
		i.config.Entrypoint = c.CmdLine
	case *instructions.CmdCommand:
		i.config.Cmd = c.CmdLine
	default:
		return errors.New("this program can't run the instruction")
	}
	return nil
}

func set(names []string) map[string]struct{} {
	all := make(map[string]struct{})
	for _, name := range names {
		all[name] = struct{}{}
	}
	return all
}

// run runs a shell command in the image.
func (i *image) run(line []string) error {
	cmd := exec.Command("/bin/sh", "-c", strings.Join(line, " ")) //nolint:gosec,noctx // it is the Dockerfile's
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}, i.arguments...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return nil
}

// copy copies a file, or the content of a directory. Without --chown the files are root's.
func (i *image) copy(c *instructions.CopyCommand) error {
	if c.From != "build" || len(c.SourcePaths) != 1 {
		return errors.New("this program copies one path from the stage build")
	}
	source, target := filepath.Join(i.build, c.SourcePaths[0]), filepath.Join(i.root, c.DestPath)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		source += "/."
	}
	owner := c.Chown
	if owner == "" {
		owner = "0:0"
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // part of the image
		return err
	}
	staged, err := os.MkdirTemp("", "copy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // temporary
	part := filepath.Join(staged, "part")
	for _, args := range [][]string{
		{"cp", "-a", source, part}, {"chown", "-R", owner, part}, {"cp", "-aT", part, target},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec,noctx // as above
			return fmt.Errorf("%s: %w\n%s", args, err, out)
		}
	}
	return nil
}

// write writes the image as one layer.
func (i *image) write(output, target string) error {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		read, write := io.Pipe()
		go func() { write.CloseWithError(i.pack(write)) }()
		return read, nil
	})
	if err != nil {
		return err
	}
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	if built, err = mutate.Config(built, i.config); err != nil {
		return err
	}
	file, err := built.ConfigFile()
	if err != nil {
		return err
	}
	file.OS, file.Architecture = "linux", runtime.GOARCH
	if built, err = mutate.ConfigFile(built, file); err != nil {
		return err
	}
	tag, err := name.NewTag("tidemark:" + target)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(output, tag, built)
}

// pack writes all files as a tar archive.
func (i *image) pack(w io.Writer) error {
	archive := tar.NewWriter(w)
	err := filepath.Walk(i.root, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == i.root || info.Mode()&(os.ModeDevice|os.ModeSocket) != 0 {
			return err
		}
		return i.packFile(archive, path, info)
	})
	return errors.Join(err, archive.Close())
}

func (i *image) packFile(archive *tar.Writer, path string, info os.FileInfo) error {
	link := ""
	if info.Mode()&os.ModeSymlink != 0 {
		var err error
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name, err = filepath.Rel(i.root, path)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		header.Uid, header.Gid = int(owner.Uid), int(owner.Gid)
		header.Uname, header.Gname = strconv.Itoa(header.Uid), strconv.Itoa(header.Gid)
	}
	if err := errors.Join(err, archive.WriteHeader(header)); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(path) //nolint:gosec // it was just found
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return errors.Join(err, file.Close())
}
