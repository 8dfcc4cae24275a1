// Logs in by the environment as an app with node-postgres does, and prints its role.
const { Client } = require("pg");

const connect = {
  libpq: () => new Client(),
  url: () => new Client({ connectionString: process.env.DATABASE_URL }),
};

async function login(client) {
  await client.connect();
  const { rows } = await client.query("SELECT current_user::text AS role");
  await client.end();
  return rows[0].role;
}

login(connect[process.argv[2]]()).then(console.log, (error) => {
  console.error(String(error));
  process.exitCode = 1;
});
