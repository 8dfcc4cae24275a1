// Logs in by the environment as an app with pgx does, and prints its role.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

func connect(ctx context.Context, client string) (*pgx.Conn, error) {
	if client == "libpq" {
		return pgx.Connect(ctx, "")
	}
	return pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
}

func login(ctx context.Context, client string) (string, error) {
	connection, err := connect(ctx, client)
	if err != nil {
		return "", err
	}
	defer connection.Close(ctx)
	var role string
	err = connection.QueryRow(ctx, "SELECT current_user::text").Scan(&role)
	return role, err
}

func main() {
	role, err := login(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(role)
}
