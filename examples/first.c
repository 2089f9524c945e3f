/* The first program, in C. It needs a server:  kvserver --listen=local:///tmp/remora.sock --durability=memory
 */
#include <remora.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "local:///tmp/remora.sock";
  remora_client* client;
  const void* value;
  size_t size;

  if (remora_connect(address, NULL, &client) != REMORA_OK) {
    fprintf(stderr, "%s\n", remora_message());
    return 1;
  }
  if (remora_put(client, "greeting", 8, "hello, world", 12, NULL) != REMORA_OK ||
      remora_get(client, "greeting", 8, &value, &size, NULL) != REMORA_OK) {
    fprintf(stderr, "%s\n", remora_message());
    return 1;
  }
  printf("%.*s\n", (int)size, (const char*)value);
  remora_close(client);
  return 0;
}
