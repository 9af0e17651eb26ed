/* A program that is not Python, as a job of Muster: each process throws darts at a square, and the share that hits the circle
 * is pi / 4. It talks to its task over a Unix socket, one line of JSON a call (docs/programs.md), reports the estimate,
 * keeps a checkpoint now and then, and goes on from it after a loss.
 *
 *     cc -O2 -o pi pi.c && muster submit pi.yaml
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STEPS 50
#define STEPS_OF_CHECKPOINT 10
#define DARTS_OF_STEP 200000

/* A stream in each direction of the connection to the task. */
static FILE *to_task, *from_task;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void connect_to_task(void) {
  const char* path = getenv("MUSTER_TASK");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (path == NULL || strlen(path) >= sizeof(address.sun_path)) {
    fprintf(stderr, "MUSTER_TASK names no socket; this program runs as a job of Muster\n");
    exit(1);
  }
  strcpy(address.sun_path, path);
  if (connection < 0 || connect(connection, (struct sockaddr*)&address, sizeof(address)) != 0) fail(path);
  to_task = fdopen(dup(connection), "w");
  from_task = fdopen(connection, "r");
  if (to_task == NULL || from_task == NULL) fail("streams");
}

/* Sends a call with these fields, and returns the line that answers it, until the next call. */
static const char* call(const char* name, const char* fields) {
  static char* answer;
  static size_t room;
  fprintf(to_task, "{\"token\": \"%s\", \"call\": \"%s\"%s}\n", getenv("MUSTER_TASK_TOKEN"), name, fields);
  if (fflush(to_task) != 0 || getline(&answer, &room, from_task) < 0) fail("the task has gone");
  if (strstr(answer, "\"ok\":true") == NULL) {
    fprintf(stderr, "%s was refused: %s", name, answer);
    exit(1);
  }
  return answer;
}

/* Copies the folder of an answer, if it has one, and appends the name of this rank's file; returns 1 if it has. */
static int file_of(const char* answer, char* path, size_t room) {
  const char* begin = strstr(answer, "\"folder\":\"");
  const char* end = begin == NULL ? NULL : strchr(begin += 10, '"');
  if (end == NULL) return 0;
  snprintf(path, room, "%.*s/darts-%s", (int)(end - begin), begin, getenv("RANK"));
  return 1;
}

int main(void) {
  char fields[256], path[4096];
  unsigned long thrown = 0, hit = 0;
  unsigned short random[3] = {1, 2, (unsigned short)atoi(getenv("RANK") == NULL ? "0" : getenv("RANK"))};
  connect_to_task();
  if (file_of(call("resume", ""), path, sizeof(path))) {
    FILE* file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%lu %lu %hu %hu %hu", &thrown, &hit, &random[0], &random[1], &random[2]) != 5) fail(path);
    fclose(file);
    printf("goes on after %lu darts\n", thrown);
  }
  for (unsigned long step = thrown / DARTS_OF_STEP + 1; step <= STEPS; ++step) {
    for (int i = 0; i < DARTS_OF_STEP; ++i) {
      const double x = erand48(random), y = erand48(random);
      hit += x * x + y * y < 1;
    }
    thrown += DARTS_OF_STEP;
    snprintf(fields, sizeof(fields), ", \"step\": %lu, \"metrics\": {\"pi\": %.6f}, \"examples\": %d", step,
             4.0 * hit / thrown, DARTS_OF_STEP);
    call("report", fields);
    if (step % STEPS_OF_CHECKPOINT != 0) continue;
    /* The checkpoint is the files of all processes: commit waits for the others. */
    snprintf(fields, sizeof(fields), ", \"step\": %lu", step);
    if (file_of(call("begin_checkpoint", fields), path, sizeof(path))) {
      FILE* file = fopen(path, "w");
      if (file == NULL) fail(path);
      fprintf(file, "%lu %lu %hu %hu %hu\n", thrown, hit, random[0], random[1], random[2]);
      if (fclose(file) != 0) fail(path);
      call("commit_checkpoint", fields);
    }
  }
  printf("pi is about %.4f after %lu darts\n", 4.0 * hit / thrown, thrown);
  return 0;
}
