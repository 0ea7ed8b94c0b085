/* Memory that another thread has read is freed and allocated again. What it contains is durable before it is published. */
// build: -pthread -lpmemobj
// check: --loads
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static PMEMobjpool *pop;
static struct root *root;

static void publish(uint64_t value) {
  struct node *node = (struct node *)pmemobj_direct(root->list);
  STORE(node->value, value);
  PERSIST(node->value);
  pthread_mutex_lock(&mutex);
  STORE(root->count, (uint64_t)node);
  PERSIST(root->count);
  pthread_mutex_unlock(&mutex);
}

static void *reader(void *unused) {
  await_turn(1);
  pthread_mutex_lock(&mutex);
  LOAD(((struct node *)LOAD(root->count))->value);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  pmemobj_alloc(pop, &root->list, 64, 1, NULL, NULL);
  publish(7);
  end_turn();
  await_turn(2);
  uint64_t freed = root->list.off;
  pmemobj_free(&root->list);
  while (root->list.off != freed)
    pmemobj_alloc(pop, &root->list, 64, 1, NULL, NULL);
  publish(8);
  return unused;
}

int main(int argc, char **argv) {
  pop = create_pool(argv[1]);
  root = (struct root *)pmemobj_direct(ROOT(pop));
  run_threads(reader, writer);
  pmemobj_close(pop);
  return argc - 2;
}
