#ifndef MUSTER_COMMON_MESH_RANK_SHARDS_H_
#define MUSTER_COMMON_MESH_RANK_SHARDS_H_

namespace muster {

// The shards in which a job's parameters lie, and the ranks that have them. Each stage of a
// pipeline has as many shards as any other, and as many ranks, which follow one another
// (common/mesh/mesh.h) and have the stage's shards by turns. Ranks with the same shard are replicas
// of one another.
//
// For example, 2 stages of 4 ranks have 4 shards: those of ranks 0 to 7 are 0 1 0 1 2 3 2 3.
struct RankShards {
  // Of all stages together. Divides the number of ranks.
  int count = 1;
  // Divides `count`.
  int stages = 1;

  // Returns the shard of one of `ranks` ranks.
  int Of(int rank, int ranks) const {
    // Slots of a job that has not that many ranks now may ask, too.
    if (stages == 1) return rank % count;
    const int of_stage = count / stages;
    return rank / (ranks / stages) * of_stage + rank % (ranks / stages) % of_stage;
  }
  // Returns the rank's number among those with its shard, of which there are `ranks` / `count`.
  int ReplicaOf(int rank, int ranks) const { return rank % (ranks / stages) / (count / stages); }
};

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_RANK_SHARDS_H_
