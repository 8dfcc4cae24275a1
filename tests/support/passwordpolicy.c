/* A policy on passwords, as extensions such as credcheck bring it: no verifier is taken, and no
 * password that has the name of its role in it.
 *
 * The declarations are those of PostgreSQL 15, so that no package of its headers is needed. A real
 * hook is tested: https://www.postgresql.org/docs/15/passwordcheck.html has PostgreSQL's own.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ERROR = 21, PLAINTEXT = 0 };

typedef void (*check_password)(const char *, const char *, int, uintptr_t, bool);

extern check_password check_password_hook;
extern bool errstart(int, const char *);
extern int errcode(int);
extern int errmsg(const char *, ...);
extern void errfinish(const char *, int, const char *);

static const struct {
    int length, version, arguments, keys, name, by_value;
    char abi[32];
} magic = {sizeof(magic), 1500, 100, 32, 64, true, "PostgreSQL"};

const void *Pg_magic_func(void) { return &magic; }

static int state(const char *text)
{
    int made = 0;
    for (int place = 0; place < 5; place++)
        made += ((text[place] - '0') & 0x3F) << (6 * place);
    return made;
}

static void refuse(const char *sqlstate, const char *text)
{
    if (errstart(ERROR, NULL)) {
        errcode(state(sqlstate));
        errmsg("%s", text);
        errfinish(__FILE__, __LINE__, __func__);
    }
}

static void check(const char *role, const char *password, int kind, uintptr_t until, bool never)
{
    if (kind != PLAINTEXT)
        refuse("28000", "password type is not a plain text");
    else if (strstr(password, role))
        refuse("22023", "password should not contain username");
}

void _PG_init(void) { check_password_hook = check; }
