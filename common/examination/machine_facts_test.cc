#include "common/examination/machine_facts.h"

#include <filesystem>
#include <fstream>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

TEST(MachineFactsTest, ReadsWhatTheSystemSays) {
  const TempFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path file = root.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  write("/proc/sys/kernel/random/boot_id", "5f0d-11\n");
  write("/proc/meminfo",
        "MemTotal:       2048 kB\nMemFree:         100 kB\nMemAvailable:   1024 kB\n"
        "SwapTotal:       512 kB\nSwapFree:        500 kB\nHugePages_Total:       0\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never\n");
  v1::MachineFacts facts;
  ReadMachineFacts(facts, root.path());
  EXPECT_EQ(facts.boot_id(), "5f0d-11");
  EXPECT_EQ(facts.machine_memory_bytes(), 2u << 20);
  EXPECT_EQ(facts.available_memory_bytes(), 1u << 20);
  EXPECT_EQ(facts.swap_used_bytes(), 12u << 10);
  EXPECT_EQ(facts.huge_pages(), "never");
  EXPECT_EQ(facts.shared_huge_pages(), "advise");
  EXPECT_GT(facts.descriptors(), 0u);
  EXPECT_GT(facts.processors(), 0u);
  EXPECT_FALSE(facts.host().empty());
}

TEST(MachineFactsTest, WhatIsNotThereStaysEmpty) {
  const TempFolder root;
  v1::MachineFacts facts;
  ReadMachineFacts(facts, root.path());
  EXPECT_EQ(facts.huge_pages(), "");
  EXPECT_EQ(facts.machine_memory_bytes(), 0u);
  EXPECT_EQ(ChosenWord("no choice"), "");
  EXPECT_EQ(ChosenWord("[open"), "");
}

}  // namespace
}  // namespace muster
