/* Reads a text from standard input and looks for words in it: what a fuzzer executes again and again.
 *
 * @flags -O2
 */
#include <string.h>
#include <unistd.h>

int main(void) {
  char text[256];
  ssize_t len = read(0, text, sizeof text - 1);
  if (len < 0) return 1;
  text[len] = 0;
  int words = 0;
  for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
    if (word[0] == 'm' && word[1] == 'a' && word[2] == 'g' && word[3] == 'i') words += 10;
    words++;
  }
  return words > 200;
}
