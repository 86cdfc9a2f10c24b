// The parent's own code keeps the parent's standard.
static_assert(__cplusplus == 201703L);
int main() { return 0; }
