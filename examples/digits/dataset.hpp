// The handwritten digits: images of 8 x 8 pixels with their labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace digits {

constexpr std::size_t pixels_per_image = 64;
constexpr std::size_t classes = 10;

struct Dataset {
  std::vector<float> pixels; // pixels_per_image for each image, from 0 to 1
  std::vector<int> labels;   // 0 to 9

  std::size_t size() const { return labels.size(); }
  const float *image(std::size_t at) const { return pixels.data() + at * pixels_per_image; }
  void add(const float *image, int label);
};

// Reads a file of lines "p0,…,p63,label". Throws std::runtime_error that names the line at fault.
Dataset read_csv(const std::string &path);

// Every fifth image is held out; the same on every rank.
struct Split {
  Dataset training;
  Dataset held_out;
};
Split hold_out_a_fifth(const Dataset &all);

// What is left to `rank` when `size` ranks share the images in turn.
Dataset shard(const Dataset &all, std::size_t rank, std::size_t size);

} // namespace digits
