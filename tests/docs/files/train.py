import sys

print("trained with", *sys.argv[1:])
