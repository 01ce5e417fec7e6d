// Carries the precompiled header of the test programs.
int main() { return 0; }
