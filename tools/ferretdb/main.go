// Command ferretdb is FerretDB with SQLite as its store: a real server of
// MongoDB's wire protocol that builds from source. Pathwise's own server is
// compared with it by this module's test, and the mongo workloads can use it as
// theirs:
//
//	server: "bin/ferretdb --listen :${PORT} --dir ${DIR}"
//
// It is bound by its storage, so figures taken with it say little of a network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "ferretdb: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("ferretdb", flag.ContinueOnError)
	fs.SetOutput(stderr)
	listen := fs.String("listen", "127.0.0.1:27017", "`address:port` to listen on")
	dir := fs.String("dir", "", "existing `directory` for the databases")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" || fs.NArg() > 0 {
		return errors.New("expected --dir DIRECTORY and no arguments")
	}
	f, err := open(*listen, *dir, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

// open makes a FerretDB that keeps its databases in dir.
func open(listen, dir string, log *slog.Logger) (*ferretdb.FerretDB, error) {
	f, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: listen},
		Handler:   "sqlite",
		SQLiteURL: "file:" + dir + "/",
		Logger:    log,
	})
	if err != nil {
		return nil, fmt.Errorf("start FerretDB: %w", err)
	}
	return f, nil
}
