#include "common/examination/machine_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/machine/usable_resources.h"
#include "common/examination/fact_text.h"
#include "common/files/bytes_of_file.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

// Reads lines such as "MemAvailable:   22034 kB" into bytes.
std::map<std::string, uint64_t> ReadMeminfo(const std::string& path) {
  std::map<std::string, uint64_t> figures;
  std::ifstream file(path);
  std::string name, unit;
  for (uint64_t value = 0; file >> name >> value;) {
    std::getline(file, unit);
    figures[name] = absl::StrContains(unit, "kB") ? value << 10 : value;
  }
  return figures;
}

}  // namespace

std::string ChosenWord(absl::string_view setting) {
  const size_t begin = setting.find('[');
  const size_t end = setting.find(']', begin);
  if (begin == absl::string_view::npos || end == absl::string_view::npos) return "";
  return std::string(setting.substr(begin + 1, end - begin - 1));
}

void ReadMachineFacts(v1::MachineFacts& facts, const std::string& root) {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0) facts.set_host(FactText(name));
  facts.set_boot_id(FactText(absl::StripAsciiWhitespace(
      BytesOfFile(absl::StrCat(root, "/proc/sys/kernel/random/boot_id")))));
  const UsableResources usable = FindUsableResources(root);
  facts.set_processors(usable.processors);
  facts.set_usable_memory_bytes(usable.memory_bytes);
  std::map<std::string, uint64_t> memory = ReadMeminfo(absl::StrCat(root, "/proc/meminfo"));
  facts.set_machine_memory_bytes(memory["MemTotal:"]);
  facts.set_available_memory_bytes(memory["MemAvailable:"]);
  facts.set_swap_used_bytes(memory["SwapTotal:"] - memory["SwapFree:"]);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.set_descriptors(limit.rlim_cur);
  const std::string pages = absl::StrCat(root, "/sys/kernel/mm/transparent_hugepage/");
  facts.set_huge_pages(FactText(ChosenWord(BytesOfFile(pages + "enabled"))));
  facts.set_shared_huge_pages(FactText(ChosenWord(BytesOfFile(pages + "shmem_enabled"))));
}

}  // namespace muster
